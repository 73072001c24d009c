"""nvshare-device-plugin: offers each GPU to kubelet several times over and gives containers what sharing needs."""
