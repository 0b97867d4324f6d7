# What a person does with this project; the build itself is CMake's (CMakePresets.json).
#   make            build the libraries, the command and the examples; the tests only if build/release is configured for them
#   make demo       classify handwritten digits, and learn to, from a fresh machine on
#   make test       everything that has to pass
#   make bench      compare with ONNX Runtime; writes docs/benchmarks.md and docs/operators-benchmark.md
#   make bench-quantized  the same for models of integers; writes docs/quantization-benchmark.md
#   make bench-trained  trained networks with int8, beside their floats; renews their part of docs/quantization-benchmark.md
#   make bench-generation  the same for tokens of a decoder; writes docs/generation-benchmark.md
#   make bench-source  models compiled from Python source beside torch.onnx.export; writes docs/source-benchmark.md
#   make bench-serving  compare `xcvm serve` with fastify and onnxruntime-node
#   make aarch64    build for 64-bit ARM and run the suites under qemu-user
#   make install    PREFIX=/usr/local DESTDIR=
#   make format     lay out the sources with clang-format
#   make docs       build the documentation site in build/release/docs/html, with new pictures
#   make pictures   renew the pictures of docs/ that are taken in Chromium
#   make generated  renew the pages and figures of docs/ that are made from the tables and the tree
#   make size       the bytes of the runtime library, layer by layer
#   make python     build the Python package and install it in build/venv
#   make web        build the npm package for browsers and Node in build/web/package
#   make deb        build Debian packages in build/deb
#   make reproducible  build them once more under other conditions, and compare the bytes
#   make image      build a container image of the model server, build/xcvm-server.tar
#   make bench-web  compare the npm package with onnxruntime-web in Node and Chromium
#   make clean      remove build/ and demo/

PREFIX ?= /usr/local
BUILD_PACKAGES = gcc make cmake ninja-build pkg-config libprotobuf-c-dev protobuf-c-compiler protobuf-compiler \
	libopenblas-dev libonnx-dev libstb-dev libpcre2-dev libjpeg-dev libwebp-dev libtiff-dev libopenjp2-7-dev \
	libjansson-dev libnghttp2-dev libssl-dev zlib1g-dev libc6-dev check libsubunit-dev python3 python3-dev python3-venv
TEST_PACKAGES = $(BUILD_PACKAGES) $(DOCS_PACKAGES) git g++ clang clang-format clang-tidy cppcheck codespell valgrind libclang-rt-14-dev python3-dbg python3-onnx \
	curl openssl prometheus systemd python3-grpcio python3-protobuf python3-h2 python3-numpy python3-pil python3-sklearn python3-torch python3-torchvision python3-scipy openmpi-bin mypy \
	fonts-dejavu-core espeak-ng sox chromium nodejs $(WEB_PACKAGES)
# Node.js from other sources has its own headers, and conflicts with Debian's.
NODE_PACKAGES = $(if $(wildcard /usr/include/node/node_api.h),,libnode-dev)
WEB_PACKAGES = $(BUILD_PACKAGES) clang-19 lld-19 llvm-19 libclang-rt-19-dev-wasm32 wasi-libc brotli binutils $(NODE_PACKAGES)
DOCS_PACKAGES = doxygen python3-sphinx python3-myst-parser python3-breathe
PICTURE_PACKAGES = chromium fonts-dejavu-core python3-onnx python3-torch python3-torchvision
DEB_PACKAGES = $(BUILD_PACKAGES) $(DOCS_PACKAGES) debhelper dh-python dpkg-dev lintian
IMAGE_PACKAGES = curl libdeflate-tools skopeo
REPRODUCIBLE_PACKAGES = diffoscope-minimal disorderfs faketime libdeflate-tools locales
ARM_PACKAGES = gcc-aarch64-linux-gnu qemu-user qemu-user-binfmt libc6:arm64 libprotobuf-c-dev:arm64 libopenblas-dev:arm64 \
	zlib1g-dev:arm64 libpcre2-dev:arm64 libjansson-dev:arm64 libnghttp2-dev:arm64 libssl-dev:arm64 check:arm64 libjpeg-dev:arm64 libwebp-dev:arm64 \
	libtiff-dev:arm64 libopenjp2-7-dev:arm64

all: build

packages:
	@scripts/install-packages.sh $(BUILD_PACKAGES)

# The preset turns the tests on, and `make test` uses it. A change to OFF would delete the tests that are already built.
build: packages
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null \
		-DXCVM_TESTS=$$(grep -qs '^XCVM_TESTS:[A-Z]*=ON' build/release/CMakeCache.txt && echo ON || echo OFF)
	@scripts/announce-build.sh build/release
	@cmake --build --preset release

demo: build python
	@examples/digits/demo.sh build/release demo
	@examples/digits/demo_python.sh build/venv demo

test:
	@scripts/install-packages.sh $(TEST_PACKAGES)
	@scripts/test.sh

bench: build
	@bench/report.sh

bench-quantized: build
	@{ bench/quantized.sh && echo && bench/quantized_trained.sh --page; } >docs/quantization-benchmark.md.new || { rm -f docs/quantization-benchmark.md.new; exit 1; }
	@bench/stamp.py docs/quantization-benchmark.md.new docs/quantization-benchmark.md
	@mv docs/quantization-benchmark.md.new docs/quantization-benchmark.md

# The page has two parts, of which the second one can be renewed alone.
bench-trained: build
	@sed '/^# Trained networks/,$$d' docs/quantization-benchmark.md >docs/quantization-benchmark.md.new
	@bench/quantized_trained.sh --page >>docs/quantization-benchmark.md.new || { rm -f docs/quantization-benchmark.md.new; exit 1; }
	@bench/stamp.py docs/quantization-benchmark.md.new docs/quantization-benchmark.md
	@mv docs/quantization-benchmark.md.new docs/quantization-benchmark.md

bench-generation: build
	@bench/generation.sh >docs/generation-benchmark.md.new || { rm -f docs/generation-benchmark.md.new; exit 1; }
	@bench/stamp.py docs/generation-benchmark.md.new docs/generation-benchmark.md
	@mv docs/generation-benchmark.md.new docs/generation-benchmark.md

bench-source: python
	@scripts/install-packages.sh python3-onnx python3-torch python3-torchvision
	@build/venv/bin/python bench/source.py >docs/source-benchmark.md.new || { rm -f docs/source-benchmark.md.new; exit 1; }
	@bench/stamp.py docs/source-benchmark.md.new docs/source-benchmark.md
	@mv docs/source-benchmark.md.new docs/source-benchmark.md

bench-serving: build
	@bench/serving.sh

aarch64: packages
	@dpkg --print-foreign-architectures | grep -q arm64 || $$([ "$$(id -u)" = 0 ] || echo sudo) dpkg --add-architecture arm64
	@scripts/install-packages.sh $(ARM_PACKAGES)
	@scripts/aarch64.sh

install: build
	@cmake --install build/release
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

docs: build
	@scripts/install-packages.sh $(DOCS_PACKAGES) $(PICTURE_PACKAGES)
	@scripts/docs.sh build/release --pictures

pictures: build web
	@scripts/install-packages.sh $(PICTURE_PACKAGES) nodejs python3-pil
	@scripts/pictures.sh build/release build/pictures docs/figures
	@tests/server/page/run.sh build/release --pictures
	@XCVM_PICTURE=docs/figures/playground.png node --no-warnings --test tests/web/playground.test.mjs

generated: build
	@scripts/generated.sh build/release

deb:
	@scripts/install-packages.sh $(DEB_PACKAGES)
	@scripts/debian.sh build build/deb

reproducible: deb
	@scripts/install-packages.sh $(REPRODUCIBLE_PACKAGES)
	@scripts/reproducible.sh build/deb build/deb-again

image: deb
	@scripts/install-packages.sh $(IMAGE_PACKAGES)
	@scripts/image.sh build build/deb build/xcvm-server.tar
	@scripts/image.sh check build/xcvm-server.tar

size: build
	@scripts/size.sh build/release

python: build
	@scripts/python.sh build/release build/venv

web:
	@scripts/install-packages.sh $(WEB_PACKAGES)
	@scripts/web.sh

bench-web: web
	@scripts/install-packages.sh nodejs chromium
	@bench/web/run.sh >docs/web-benchmark.md.new || { rm -f docs/web-benchmark.md.new; exit 1; }
	@bench/stamp.py docs/web-benchmark.md.new docs/web-benchmark.md
	@mv docs/web-benchmark.md.new docs/web-benchmark.md

clean:
	rm -rf build demo

.PHONY: all packages build demo test bench bench-quantized bench-trained bench-generation bench-source bench-serving aarch64 install format docs pictures generated size python web bench-web deb reproducible image clean
