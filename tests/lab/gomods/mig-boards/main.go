// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Prints what NVIDIA's own imitations of boards (go-nvml's mocks) say of MIG, as one JSON object: each board's profiles by
// NVML's numbers, with the places that a profile can take.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// profile is a GPU instance profile. Number is NVML's NVML_GPU_INSTANCE_PROFILE_*; places are start and size.
type profile struct {
	Number    int         `json:"number"`
	Slices    uint32      `json:"slices"`
	Instances uint32      `json:"instances"`
	MiB       uint64      `json:"mib"`
	Places    [][2]uint32 `json:"places"`
}

type board struct {
	Name     string    `json:"name"`
	PciID    string    `json:"pci_id"`
	MiB      uint64    `json:"mib"`
	Profiles []profile `json:"profiles"`
}

var boards = map[string]gpus.Config{
	"a30":       gpus.A30_PCIE_24GB,
	"a100-40gb": gpus.A100_SXM4_40GB,
	"a100-80gb": gpus.A100_SXM4_80GB,
	"h100":      gpus.H100_SXM5_80GB,
	"h200":      gpus.H200_SXM5_141GB,
	"b200":      gpus.B200_SXM5_180GB,
}

func main() {
	found := map[string]board{}
	for name, config := range boards {
		described, err := describe(config)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		found[name] = described
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func describe(config gpus.Config) (board, error) {
	mock, err := server.New(server.WithGPUs(config))
	if err != nil {
		return board{}, err
	}
	gpu, ret := mock.DeviceGetHandleByIndex(0)
	if ret != nvml.SUCCESS {
		return board{}, ret
	}
	memory, ret := gpu.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return board{}, ret
	}
	found := board{Name: config.Name, PciID: fmt.Sprintf("0x%04x", config.PciDeviceId>>16), MiB: memory.Total >> 20}
	for number := 0; number < nvml.GPU_INSTANCE_PROFILE_COUNT; number++ {
		info, ret := gpu.GetGpuInstanceProfileInfo(number)
		if ret != nvml.SUCCESS {
			continue
		}
		places, ret := gpu.GetGpuInstancePossiblePlacements(&info)
		if ret != nvml.SUCCESS {
			return board{}, fmt.Errorf("profile %d: %v", number, ret)
		}
		one := profile{Number: number, Slices: info.SliceCount, Instances: info.InstanceCount, MiB: info.MemorySizeMB}
		for _, place := range places {
			one.Places = append(one.Places, [2]uint32{place.Start, place.Size})
		}
		sort.Slice(one.Places, func(a, b int) bool { return one.Places[a][0] < one.Places[b][0] })
		found.Profiles = append(found.Profiles, one)
	}
	return found, nil
}
