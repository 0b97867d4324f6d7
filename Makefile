# What a person does with this project; the build itself is CMake's (CMakePresets.json).
#   make            build
#   make demo       classify handwritten digits, from a fresh machine on
#   make test       everything that has to pass
#   make bench      compare with ONNX Runtime
#   make install    PREFIX=/usr/local DESTDIR=
#   make format     lay out the sources with clang-format
#   make generated  renew the pages of docs/ that come from the tables

PREFIX ?= /usr/local
BUILD_PACKAGES = gcc make cmake ninja-build pkg-config libprotobuf-c-dev protobuf-c-compiler protobuf-compiler \
	libopenblas-dev libonnx-dev uthash-dev libstb-dev zlib1g-dev libc6-dev check libsubunit-dev
TEST_PACKAGES = $(BUILD_PACKAGES) g++ clang clang-format clang-tidy cppcheck valgrind libclang-rt-14-dev python3-onnx \
	python3-numpy

all: build

packages:
	@scripts/install-packages.sh $(BUILD_PACKAGES)

build: packages
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	@cmake --build --preset release

demo: build
	@examples/digits/demo.sh build/release demo

test:
	@scripts/install-packages.sh $(TEST_PACKAGES)
	@scripts/test.sh

bench: build
	@bench/compare.sh

install: build
	@cmake --install build/release

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

generated: build
	@scripts/generated.sh build/release

size: build
	@scripts/size.sh build/release

clean:
	rm -rf build demo

.PHONY: all packages build demo test bench install format generated size clean
