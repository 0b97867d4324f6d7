# Cross build for WebAssembly (wasm32-wasi) with Debian's clang, lld and wasi-libc: cmake --preset web.
# Packages: clang-19 lld-19 libclang-rt-19-dev-wasm32 llvm-19 wasi-libc. scripts/web.sh fetches the sources of protobuf-c.
# CMake has no platform for WASI; Generic is one without shared libraries.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR llvm-ar-19)
set(CMAKE_RANLIB llvm-ranlib-19)
# The objects are linked with memory of their own and with shared memory, so they contain atomic instructions, which every
# engine with SIMD accepts. Debian's libc is compiled without them: its errno is a common variable, which code of worker
# threads does not use.
set(CMAKE_C_FLAGS_INIT "-msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -matomics -mmutable-globals -mthread-model posix -D_Thread_local= -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_PROCESS_CLOCKS")
# Sources are small unless they ask for speed: what users download matters more than the speed of loading.
set(CMAKE_C_FLAGS_RELEASE "-Os" CACHE STRING "Flags of a release")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(XCVM_PLATFORM wasi)
