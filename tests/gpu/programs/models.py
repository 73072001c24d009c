"""Models that answer: generate (transformers), onnx (onnxruntime). Random weights, made here. Options: steps.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from steps import Work, main

PROMPT, ANSWER, PROMPTS, WORDS = 32, 16, 8, 32000
WIDTH, INNER = 2048, 5632
LAYER_BYTES = 2 * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER)
"""Of one layer of the language model in bf16."""
SIDE = 4096
MOST_MATRICES = 24
"""A model is one message of less than 2 GiB."""


def generate(_: str, memory: int) -> Work:
    """A language model as Llama's that continues prompts, always by the likeliest word."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    gpu = torch.cuda.is_available()
    # What has no deterministic kernel is told, and shows as a difference if it is one.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(7)
    sizes = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": max(1, memory // LAYER_BYTES)}
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    config = LlamaConfig(vocab_size=WORDS, num_attention_heads=16, **(sizes if gpu else small))
    device = "cuda" if gpu else "cpu"
    with torch.device(device):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    words = torch.randint(WORDS, (PROMPTS, PROMPT), generator=torch.Generator().manual_seed(7)).to(device)
    said: list[Any] = [words]

    def step() -> None:
        asked = said[-1][:, -PROMPT:]
        said.append(
            model.generate(
                asked,
                attention_mask=torch.ones_like(asked),
                max_new_tokens=ANSWER,
                min_new_tokens=ANSWER,
                do_sample=False,
                pad_token_id=0,
            )
        )

    def results() -> Iterator[Any]:
        with torch.no_grad():
            yield model(said[-1]).logits.float().cpu().numpy()
        for each in said:
            yield each.cpu().numpy()

    return step, torch.cuda.synchronize if gpu else lambda: None, results


def onnx(_: str, memory: int) -> Work:
    """Matrix products, one after the other, each of whose results is bounded."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    gpu = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    side = SIDE if gpu else 64
    count = max(1, min(MOST_MATRICES, memory // (4 * side * side))) if gpu else 2
    generator = numpy.random.default_rng(7)
    weights, nodes, name = [], [], "x0"
    # Random numbers for all would take longer than the rest.
    matrix = generator.standard_normal((side, side), dtype="float32") / numpy.float32(side**0.5)
    for number in range(count):
        weights.append(numpy_helper.from_array(numpy.roll(matrix, number, axis=1), f"w{number}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{number}"], [f"y{number}"]))
        nodes.append(helper.make_node("Tanh", [f"y{number}"], [name := f"x{number + 1}"]))
    shape = [256, side]
    ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in ("x0", name)]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    providers = [("CUDAExecutionProvider", {"use_tf32": "0"})] if gpu else ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)
    if gpu and "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("onnxruntime can't load CUDA's libraries, and would work on the processor")
    values = [generator.standard_normal(shape, dtype="float32")]

    def step() -> None:
        values[0] = session.run([name], {"x0": values[0]})[0] + numpy.float32(0.1) * values[0]

    def results() -> Iterator[Any]:
        yield values[0]

    return step, lambda: None, results


MODULES = {"generate": ["transformers.models.llama.modeling_llama"], "onnx": ["onnxruntime", "onnx"]}

if __name__ == "__main__":
    main({"generate": generate, "onnx": onnx}, MODULES)
