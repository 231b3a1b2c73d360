module gpufleet.nvidia/lab/mig-boards

go 1.26

tool gpufleet.nvidia/lab/mig-boards

require github.com/NVIDIA/go-nvml v0.13.4-1

require github.com/google/uuid v1.6.0 // indirect
