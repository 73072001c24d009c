"""The admin API of nvshare-scheduler: stubs generated from ``protos/admin.proto`` by ``protos/generate.py``."""
