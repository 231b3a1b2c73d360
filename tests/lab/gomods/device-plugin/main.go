// Copyright (c) 2026 The gpufleet.nvidia contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Stands for NVIDIA's device plugin 0.20: gives the kubelet this host's GPUs as nvidia.com/gpu, and a pod its own by the device list strategies.
// What it imitates is described in the README of NVIDIA/k8s-device-plugin and seen in its api/config/v1, internal/plugin and internal/cdi.
// It knows neither MIG nor MPS nor health checks.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	endpoint = "nvidia-gpu.sock"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "device-plugin: %v\n", err)
		os.Exit(1)
	}
}

// run serves until the kubelet makes its socket again, or a SIGHUP says that the configuration is another one: then it begins again, as NVIDIA's does.
func run(arguments []string) error {
	settings, err := load(arguments, os.LookupEnv)
	if err != nil {
		return fmt.Errorf("unable to load config: %w", err)
	}
	fmt.Fprintf(os.Stderr, "running with %+v\n", settings)
	gpus, err := found("/proc/driver/nvidia/gpus")
	if err != nil {
		return err
	}
	if settings.anyCDI() {
		if err := writeSpec(settings); err != nil {
			return fmt.Errorf("unable to create CDI spec: %w", err)
		}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := watcher.Add(api.DevicePluginPath); err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	if err := serve(&plugin{settings: settings, gpus: gpus}); err != nil {
		return err
	}
	for {
		select {
		case event := <-watcher.Events:
			if event.Name == api.KubeletSocket && event.Op.Has(fsnotify.Create) {
				return again()
			}
		case err := <-watcher.Errors:
			return err
		case <-hangup:
			return again()
		}
	}
}

func again() error {
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

func serve(p *plugin) error {
	socket := filepath.Join(api.DevicePluginPath, endpoint)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: p.settings.resource(), Options: options}
	if _, err := api.NewRegistrationClient(connection).Register(ctx, request); err != nil {
		return fmt.Errorf("could not register with the kubelet: %w", err)
	}
	fmt.Fprintf(os.Stderr, "registered %s with %d GPUs\n", p.settings.resource(), len(p.gpus))
	return nil
}
