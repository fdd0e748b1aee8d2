"""Looks in /sys, /proc, and /dev for GPUs, the driver, device files, and signs of a container."""

import glob
import grp


def _name_in(path):
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return None


def _pci_gpus():
    for folder in sorted(glob.glob(os.path.join(ROOT, "sys/bus/pci/devices/*"))):
        kind = (text_of(folder, "class") or "").strip()
        if kind.startswith("0x03"):  # display controllers
            yield {
                "address": os.path.basename(folder),
                "vendor": (text_of(folder, "vendor") or "").strip(),
                "device": (text_of(folder, "device") or "").strip(),
                "driver": _name_in(os.path.join(folder, "driver")),
            }


def _nodes():
    for path in sorted(
        glob.glob(os.path.join(ROOT, "dev/nvidia*")) + [os.path.join(ROOT, "dev/dxg")]
    ):
        if os.path.exists(path) and not os.path.isdir(path):
            name = "/" + os.path.relpath(path, ROOT)
            usable = os.access(path, os.R_OK | os.W_OK)
            yield {"name": name, "usable": usable, "group": _group_of(path)}


def _group_of(path):
    try:
        return grp.getgrgid(os.stat(path).st_gid).gr_name
    except (KeyError, OSError):
        return ""


def _container():
    for path in (".dockerenv", "run/.containerenv"):
        if os.path.exists(os.path.join(ROOT, path)):
            return "/" + path
    for name in ("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if os.environ.get(name):
            return name
    groups = text_of("proc/1/cgroup") or ""
    found = [word for word in ("docker", "kubepods", "containerd", "lxc") if word in groups]
    return "/proc/1/cgroup" if found else None


begin("reading /sys, /proc, and /dev")
report(
    pci=list(_pci_gpus()),
    nodes=list(_nodes()),
    container=_container(),
    wsl="microsoft" in (text_of("proc/version") or "").lower(),
    tegra=os.path.exists(os.path.join(ROOT, "dev/nvhost-gpu")),
)
begin("reading /proc/driver/nvidia")
report(
    module=text_of("proc/driver/nvidia/version"), parameters=text_of("proc/driver/nvidia/params")
)
