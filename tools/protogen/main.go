// Protogen generates Go code from the proto sources under api/ with only the Go command: it compiles them
// with protocompile and passes them to the plugins protoc-gen-go and protoc-gen-go-grpc, which this module
// declares as tools.
//
//	go -C tools run ./protogen -root ..
//
// With -check it writes nothing, and fails if a committed file differs from the generated one.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "the module's directory")
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	emit := func(path string, content []byte) error { return os.WriteFile(path, content, 0o644) }
	if *check {
		emit = compareFile
	}
	if err := generateCode(filepath.Join(*root, "api"), emit); err != nil {
		log.Fatal("protogen: ", err)
	}
}

func compareFile(path string, content []byte) error {
	have, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(have, content) {
		err = fmt.Errorf("%s differs from what its source gives; run make generate", path)
	}
	return err
}

func generateCode(dir string, emit func(path string, content []byte) error) error {
	files, err := protoFiles(dir)
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	linked, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return err
	}
	req := &pluginpb.CodeGeneratorRequest{Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	for _, f := range linked { // those without a package of Go have options for formgen
		if f.Options().(*descriptorpb.FileOptions).GetGoPackage() == "" {
			seen[f.Path()] = true
		}
	}
	for _, f := range linked {
		if !seen[f.Path()] {
			req.FileToGenerate = append(req.FileToGenerate, f.Path())
		}
		req.ProtoFile = appendFile(req.ProtoFile, f, seen)
	}
	for _, f := range req.ProtoFile {
		withoutOptions(f, linked)
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := runProtocPlugin(plugin, req, dir, emit); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

func protoFiles(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".proto") {
			var rel string
			rel, err = filepath.Rel(dir, path)
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	return files, err
}

// appendFile appends f after its imports, because plugins expect that order.
func appendFile(out []*descriptorpb.FileDescriptorProto, f protoreflect.FileDescriptor,
	seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[f.Path()] {
		return out
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		out = appendFile(out, f.Imports().Get(i).FileDescriptor, seen)
	}
	return append(out, protodesc.ToFileDescriptorProto(f))
}

// withoutOptions removes the options of methods that formgen reads, and the imports of their files, so that
// programs do not link packages that only generators need.
func withoutOptions(f *descriptorpb.FileDescriptorProto, linked linker.Files) {
	f.Dependency = slices.DeleteFunc(f.Dependency, func(path string) bool {
		imported := linked.FindFileByPath(path)
		return imported != nil && imported.Options().(*descriptorpb.FileOptions).GetGoPackage() == ""
	})
	for _, s := range f.Service {
		for _, m := range s.Method {
			proto.RangeExtensions(m.Options, func(t protoreflect.ExtensionType, _ any) bool {
				proto.ClearExtension(m.Options, t)
				return true
			})
			if m.Options != nil {
				m.Options.ProtoReflect().SetUnknown(nil)
			}
			if m.Options != nil && proto.Size(m.Options) == 0 {
				m.Options = nil
			}
		}
	}
}

func runProtocPlugin(plugin string, req *pluginpb.CodeGeneratorRequest, dir string,
	emit func(path string, content []byte) error) error {
	in, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &resp); err != nil {
		return err
	}
	if resp.Error != nil {
		return fmt.Errorf("%s", resp.GetError())
	}
	for _, f := range resp.File {
		if err := emit(filepath.Join(dir, f.GetName()), []byte(f.GetContent())); err != nil {
			return err
		}
	}
	return nil
}
