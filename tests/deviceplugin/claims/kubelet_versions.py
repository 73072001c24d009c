"""What kubelets of each version know of the APIs between them and a driver, by the protos that they are published with.

A row is of k8s.io/kubelet 0.34.0, 0.35.0 and 0.36.0, except what ``_LATER`` says of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from nvshare.kubelet import dra_v1_pb2, drahealth_v1alpha1_pb2, pluginregistration_v1_pb2

VERSIONS = ("1.34", "1.35", "1.36")

FACTS = {
    "k8s.io.kubelet.pkg.apis.dra.v1": {
        "DRAPlugin": "NodePrepareResources(NodePrepareResourcesRequest) NodePrepareResourcesResponse, "
        "NodeUnprepareResources(NodeUnprepareResourcesRequest) NodeUnprepareResourcesResponse",
        "NodePrepareResourcesRequest": "1 claims Claim*",
        "NodePrepareResourcesResponse": "1 claims ClaimsEntry*",
        "NodePrepareResourcesResponse.ClaimsEntry": "1 key string, 2 value NodePrepareResourceResponse",
        "NodePrepareResourceResponse": "1 devices Device*, 2 error string",
        "Device": "1 request_names string*, 2 pool_name string, 3 device_name string, 4 cdi_device_ids string*, "
        "5 share_id string?",
        "NodeUnprepareResourcesRequest": "1 claims Claim*",
        "NodeUnprepareResourcesResponse": "1 claims ClaimsEntry*",
        "NodeUnprepareResourcesResponse.ClaimsEntry": "1 key string, 2 value NodeUnprepareResourceResponse",
        "NodeUnprepareResourceResponse": "1 error string",
        "Claim": "1 namespace string, 2 uid string, 3 name string",
    },
    "v1alpha1": {
        "DRAResourceHealth": "NodeWatchResources(NodeWatchResourcesRequest) NodeWatchResourcesResponse*",
        "NodeWatchResourcesRequest": "",
        "NodeWatchResourcesResponse": "1 devices DeviceHealth*",
        "DeviceHealth": "1 device DeviceIdentifier, 2 health HealthStatus, 3 last_updated_time int64, "
        "4 health_check_timeout_seconds int64, 5 message string",
        "DeviceIdentifier": "1 pool_name string, 2 device_name string",
        "HealthStatus": "0 UNKNOWN, 1 HEALTHY, 2 UNHEALTHY",
    },
    "pluginregistration": {
        "Registration": "GetInfo(InfoRequest) PluginInfo, "
        "NotifyRegistrationStatus(RegistrationStatus) RegistrationStatusResponse",
        "InfoRequest": "",
        "PluginInfo": "1 type string, 2 name string, 3 endpoint string, 4 supported_versions string*",
        "RegistrationStatus": "1 plugin_registered bool, 2 error string",
        "RegistrationStatusResponse": "",
    },
}
"""By package: the methods of services, the fields of messages, the values of enumerations."""

_LATER = {
    "Device.share_id": "1.35",
    "DeviceHealth.health_check_timeout_seconds": "1.35",
    "DeviceHealth.message": "1.36",
}
"""The first version that has a field, where that is not the oldest."""

CHOICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""Services that each of them can ask for claims: it takes the first of them that a driver names, and no driver that
names neither. What else a driver names it does not look at.
"""


def served() -> list[FileDescriptorProto]:
    """What the driver serves."""
    found = []
    for module in (dra_v1_pb2, drahealth_v1alpha1_pb2, pluginregistration_v1_pb2):
        found.append(FileDescriptorProto())
        module.DESCRIPTOR.CopyToProto(found[-1])
    return found


def described(file: FileDescriptorProto) -> dict[str, str]:
    """It in the notation of ``FACTS``."""
    services = {
        service.name: ", ".join(
            f"{each.name}({_last(each.input_type)}) {_last(each.output_type)}{'*' * each.server_streaming}"
            for each in service.method
        )
        for service in file.service
    }
    enumerations = {
        enumeration.name: ", ".join(f"{each.number} {each.name}" for each in enumeration.value)
        for enumeration in file.enum_type
    }
    nested = {f"{outer.name}.{each.name}": each for outer in file.message_type for each in outer.nested_type}
    messages = {each.name: each for each in file.message_type} | nested
    return services | enumerations | {name: ", ".join(map(_field, each.field)) for name, each in messages.items()}


def _field(field: FieldDescriptorProto) -> str:
    kind = _last(field.type_name) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    return f"{field.number} {field.name} {kind}{'*' * repeated}{'?' * field.proto3_optional}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]


class Kubelet:
    """One of a version: it knows of messages what its protos have, and nothing else."""

    def __init__(self, version: str) -> None:
        self._pool = DescriptorPool()
        for file in served():
            for message in file.message_type:
                _keep(message, VERSIONS[: VERSIONS.index(version) + 1])
            self._pool.Add(file)  # type: ignore[no-untyped-call]

    async def ask(self, channel: grpc.aio.Channel, method: str, **request: Any) -> dict[str, Any]:
        """The answer of a method, named with its package, as JSON has it, by the names of the fields."""
        asked, answered = self._messages(method)
        call = channel.unary_unary(_path(method), asked.SerializeToString, answered.FromString)
        return _document(await call(json_format.ParseDict(request, asked()), timeout=5))

    async def watch(self, channel: grpc.aio.Channel, method: str) -> AsyncIterator[dict[str, Any]]:
        """The same of a method that answers again and again."""
        asked, answered = self._messages(method)
        async for answer in channel.unary_stream(_path(method), asked.SerializeToString, answered.FromString)(asked()):
            yield _document(answer)

    def _messages(self, method: str) -> tuple[Any, Any]:
        found = self._pool.FindMethodByName(method)  # type: ignore[no-untyped-call]
        return GetMessageClass(found.input_type), GetMessageClass(found.output_type)


def _keep(message: DescriptorProto, versions: tuple[str, ...]) -> None:
    """Takes out the fields that came after these versions."""
    kept = [each for each in message.field if _LATER.get(f"{message.name}.{each.name}", versions[0]) in versions]
    if len(kept) < len(message.field):
        del message.field[:]
        message.field.extend(kept)
        # protobuf has one for each field that is optional, and wants none without one.
        if not any(each.proto3_optional for each in kept):
            del message.oneof_decl[:]


def _path(method: str) -> str:
    return "/{}/{}".format(*method.rsplit(".", 1))


def _document(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)
