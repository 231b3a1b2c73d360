// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	vendor    = "k8s.device-plugin.nvidia.com"
	specFile  = "/var/run/cdi/" + vendor + "-gpu.json"
	variable  = "NVIDIA_VISIBLE_DEVICES"
	mountRoot = "/var/run/nvidia-container-devices"
	replica   = "::" // stands between a GPU's UUID and the number of its replica, as in NVIDIA's internal/rm
)

var options = &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}

// found are the GPUs by their UUID, with the number of their node, which is their index, too.
func found(home string) (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join(home, "*/information"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no GPU in %s: %v", home, err)
	}
	gpus := map[string]int{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		values := map[string]string{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			values[key] = strings.TrimSpace(value)
		}
		minor, err := strconv.Atoi(values["Device Minor"])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		gpus[values["GPU UUID"]] = minor
	}
	return gpus, nil
}

// writeSpec has nvidia-ctk write it, since NVIDIA's plugin writes its spec with the library that nvidia-ctk is made of.
func writeSpec(s settings) error {
	command := exec.Command("nvidia-ctk", "cdi", "generate", "--mode=nvml", "--format=json", "--output="+specFile,
		"--vendor="+vendor, "--class=gpu", "--device-name-strategy="+s.IDs, "--nvidia-cdi-hook-path="+s.Hook)
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w", said, err)
	}
	return nil
}

type plugin struct {
	api.UnimplementedDevicePluginServer
	settings settings
	gpus     map[string]int
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return options, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	devices := []*api.Device{}
	for _, gpu := range slices.Sorted(maps.Keys(p.gpus)) {
		for _, id := range p.replicas(gpu) {
			devices = append(devices, &api.Device{ID: id, Health: api.Healthy})
		}
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) replicas(gpu string) []string {
	if p.settings.Replicas == 1 {
		return []string{gpu}
	}
	ids := []string{}
	for number := range p.settings.Replicas {
		ids = append(ids, gpu+replica+strconv.Itoa(number))
	}
	return ids
}

// GetPreferredAllocation takes the GPU with the most replicas left each time, which spreads pods over the GPUs.
func (p *plugin) GetPreferredAllocation(_ context.Context, request *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	answer := &api.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		chosen := slices.Clone(container.MustIncludeDeviceIDs)
		for len(chosen) < int(container.AllocationSize) {
			left := map[string][]string{}
			for _, id := range container.AvailableDeviceIDs {
				if !slices.Contains(chosen, id) {
					left[gpu(id)] = append(left[gpu(id)], id)
				}
			}
			if len(left) == 0 {
				return nil, errors.New("not enough available devices to satisfy allocation")
			}
			most := slices.MaxFunc(slices.Sorted(maps.Keys(left)), func(a, b string) int { return len(left[a]) - len(left[b]) })
			chosen = append(chosen, slices.Min(left[most]))
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return answer, nil
}

func gpu(id string) string {
	uuid, _, _ := strings.Cut(id, replica)
	return uuid
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		gpus := []string{}
		for _, id := range container.DevicesIds {
			if _, known := p.gpus[gpu(id)]; !known {
				return nil, p.invalid("unknown device: %s", id)
			}
			if !slices.Contains(gpus, gpu(id)) {
				gpus = append(gpus, gpu(id))
			}
		}
		if asked := len(container.DevicesIds); p.settings.FailAbove && asked > 1 {
			return nil, p.invalid("maximum request size for shared resources is 1; found %d", asked)
		}
		one := p.allocated(gpus)
		fmt.Fprintf(os.Stderr, "allocate %v: %v\n", gpus, one)
		answer.ContainerResponses = append(answer.ContainerResponses, one)
	}
	return answer, nil
}

func (p *plugin) invalid(format string, values ...any) error {
	return fmt.Errorf("invalid allocation request for %q: invalid request: %w", p.settings.resource(), fmt.Errorf(format, values...))
}

// allocated adds what each strategy says. Where all of them are of CDI there is no variable, no mount and no device node.
func (p *plugin) allocated(ids []string) *api.ContainerAllocateResponse {
	one := &api.ContainerAllocateResponse{Envs: map[string]string{}}
	names := p.named(ids)
	p.addCDI(one, names)
	if p.settings.allCDI() {
		return one
	}
	if p.settings.includes("envvar") {
		one.Envs[variable] = strings.Join(names, ",")
	}
	if p.settings.includes("volume-mounts") {
		one.Envs[variable] = mountRoot
		for _, name := range names {
			one.Mounts = append(one.Mounts, &api.Mount{HostPath: "/dev/null", ContainerPath: filepath.Join(mountRoot, name)})
		}
	}
	if p.settings.DeviceSpecs {
		p.addNodes(one, ids)
	}
	return one
}

// named are the ids as the runtime is to see them.
func (p *plugin) named(ids []string) []string {
	if p.settings.IDs == "uuid" {
		return ids
	}
	names := []string{}
	for _, id := range ids {
		names = append(names, strconv.Itoa(p.gpus[id]))
	}
	return names
}

func (p *plugin) addCDI(one *api.ContainerAllocateResponse, names []string) {
	devices := []string{}
	for _, name := range names {
		devices = append(devices, vendor+"/gpu="+name)
	}
	if p.settings.includes("cdi-annotations") {
		key := p.settings.Prefix + "nvidia-device-plugin_" + uuid.NewString()
		one.Annotations = map[string]string{key: strings.Join(devices, ",")}
	}
	if p.settings.includes("cdi-cri") {
		for _, device := range devices {
			one.CdiDevices = append(one.CdiDevices, &api.CDIDevice{Name: device})
		}
	}
}

func (p *plugin) addNodes(one *api.ContainerAllocateResponse, ids []string) {
	paths := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}
	for _, id := range ids {
		paths = append(paths, fmt.Sprintf("/dev/nvidia%d", p.gpus[id]))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			one.Devices = append(one.Devices, &api.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "rw"})
		}
	}
}
