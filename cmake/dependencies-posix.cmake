# Dependencies, all from Debian.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(OPENBLAS REQUIRED openblas)
find_program(PROTOC_C protoc-c REQUIRED)
find_program(PROTOC protoc REQUIRED)
find_path(ONNX_PROTO_DIR onnx/onnx.proto REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED GLOBAL)
target_link_libraries(xcvm_options INTERFACE PkgConfig::PROTOBUF_C Threads::Threads ${CMAKE_DL_LIBS} m)
# Those that few programs need are loaded when they are (base/lazy_library.h).
include(cmake/soname.cmake)
soname_of(file ${OPENBLAS_LINK_LIBRARIES})
set_source_files_properties(ops/matmul/blas.c PROPERTIES COMPILE_DEFINITIONS XCVM_OPENBLAS_FILE="${file}" INCLUDE_DIRECTORIES
                                                  "${OPENBLAS_INCLUDE_DIRS}")
# Optional ones, each for one source, which says so where they are left out.
foreach(library PCRE2:libpcre2-8:ops/text/regex JPEG:libjpeg:formats/image_jpeg WEBP:libwebp:formats/image_webp
                TIFF:libtiff-4>=4.5:formats/image_tiff OPENJPEG:libopenjp2:formats/image_jpeg2000
                JANSSON:jansson:server/json/document
                NGHTTP2:libnghttp2:server/grpc/connection OPENSSL:libssl:server/common/tls GZIP:zlib:server/grpc/inflate)
  string(REPLACE ":" ";" library ${library})
  list(GET library 0 name)
  list(GET library 1 module)
  list(GET library 2 source)
  option(XCVM_${name} "Use ${module} if it is there" ON)
  if(XCVM_${name})
    pkg_check_modules(${name} ${module})
  endif()
  if(XCVM_${name} AND ${name}_FOUND)
    soname_of(file ${${name}_LINK_LIBRARIES})
    set_source_files_properties(${source}.c PROPERTIES COMPILE_DEFINITIONS "XCVM_HAVE_${name};XCVM_${name}_FILE=\"${file}\""
                                                           INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIRS}")
  endif()
endforeach()
option(XCVM_STB "Use stb_image if it is there" ON)
find_path(STB_DIR stb/stb_image.h)
if(XCVM_STB AND STB_DIR)
  # Somebody else's code, with findings of its own.
  set_source_files_properties(formats/image_stb.c PROPERTIES COMPILE_DEFINITIONS XCVM_HAVE_STB
                                                         COMPILE_OPTIONS "-w;-fno-sanitize=undefined")
endif()
# The VM's sources without loops over elements, and their optimization.
set(XCVM_MACHINE_SOURCES "^(base|proto|vm)/")
set(XCVM_MACHINE_FLAGS -O2)
# Vector sources that are compiled for speed: all.
set(XCVM_FAST_SOURCES ".")
