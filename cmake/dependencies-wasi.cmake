# Dependencies of the WebAssembly build. protobuf-c is compiled from Debian's sources (scripts/debian-source.sh), headers
# that are the same on every platform are taken from the machine's own include directory.
set(XCVM_PROTOBUF_C_SOURCE ${PROJECT_SOURCE_DIR}/build/sources/protobuf-c CACHE PATH "Sources of protobuf-c")
if(NOT EXISTS ${XCVM_PROTOBUF_C_SOURCE}/protobuf-c/protobuf-c.c)
  message(FATAL_ERROR "${XCVM_PROTOBUF_C_SOURCE} has no sources of protobuf-c. Run scripts/debian-source.sh protobuf-c.")
endif()
add_library(protobuf_c STATIC ${XCVM_PROTOBUF_C_SOURCE}/protobuf-c/protobuf-c.c)
target_include_directories(protobuf_c SYSTEM INTERFACE ${XCVM_PROTOBUF_C_SOURCE})
target_include_directories(protobuf_c PRIVATE ${XCVM_PROTOBUF_C_SOURCE})
target_compile_options(protobuf_c PRIVATE -w -Oz)
target_link_libraries(xcvm_options INTERFACE protobuf_c)
find_program(PROTOC_C protoc-c REQUIRED)
find_path(ONNX_PROTO_DIR onnx/onnx.proto PATHS /usr/include REQUIRED NO_CMAKE_FIND_ROOT_PATH)
option(XCVM_STB "Use stb_image if it is there" ON)
find_path(STB_DIR stb/stb_image.h PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH)
if(XCVM_STB AND STB_DIR)
  # The directory above has headers of the machine's own C library.
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/system)
  file(CREATE_LINK ${STB_DIR}/stb ${PROJECT_BINARY_DIR}/system/stb SYMBOLIC)
  set_source_files_properties(formats/image_stb.c PROPERTIES COMPILE_DEFINITIONS XCVM_HAVE_STB COMPILE_OPTIONS -w
                                                         INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/system)
endif()
# The layers above the compiler and the formats that need zlib are left out.
set(XCVM_LEFT_OUT "^(train/|tape/|formats/(npy|npz_write|zip)[.]c)")
add_library(ZLIB::ZLIB INTERFACE IMPORTED)
# The VM's sources with few loops over elements, and their optimization.
set(XCVM_MACHINE_SOURCES "^(base|proto|vm|ops/(attention|conv|control|image|ml|norm|optimizer|pool|quantize|random|recurrent|reduce|sequence|signal|state|table|text))/[^/]*$")
set(XCVM_MACHINE_FLAGS -Oz)
# Vector sources that are compiled for speed: those that the time of usual models is spent in. In the others, optimization
# for size saves 60 KB of 510 (brotli).
set(XCVM_FAST_SOURCES "/(attention/simd/(attention|cached_attention)|conv/simd/(blocked|conv[.]|conv_depthwise|conv_im2col|conv_rows|conv_winograd|planes|winograd)|elementwise/simd/(binary|unary|activation_rows)[.]|matmul/simd/(gemm|gemv|pair|quant)|norm/simd/(layer_norm|softmax)|recurrent/simd/(lstm|recurrent[.]|recurrent_steps)|quantize/simd/(integer_gemm|quantized_product|quantized_depthwise)|ops/simd/)[^/]*$")
# With relaxed SIMD, a product and a sum are one instruction. Not every engine has it.
set(XCVM_RELAXED_FLAGS -mrelaxed-simd)
