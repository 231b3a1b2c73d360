module gpufleet.nvidia/lab/rancher

go 1.26.2

tool gpufleet.nvidia/lab/rancher
