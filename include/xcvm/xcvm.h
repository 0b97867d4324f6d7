/*
 * XCVM: load and run compiled neural-network programs. docs/embedding.md explains the concepts with examples.
 *
 * Ownership: functions named _create, _load, _wrap, _copy and _retain transfer ownership to the caller. The matching
 * _destroy or _release accepts NULL. Accessors lend: the result lives as long as the object that was asked.
 *
 * Threads: a program is immutable and may be shared. A session and the values that it lends belong to one thread at a
 * time; only xcvm_session_cancel may be called from any thread. Reference counts of values are atomic.
 *
 * Errors: functions that can fail return a status and fill `error`, which may be NULL. Outputs are written on success
 * only.
 *
 * Options: option structs start with their size, as in { .size = sizeof options }. Zero selects the default of every
 * other field. Unless stated otherwise, a NULL allocator selects malloc and free.
 */
#ifndef XCVM_XCVM_H
#define XCVM_XCVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XCVM_VERSION_MAJOR 0
#define XCVM_VERSION_MINOR 2
#define XCVM_VERSION_PATCH 0

#if defined(__GNUC__)
#define XCVM_API __attribute__((visibility("default")))
#define XCVM_MUST_USE __attribute__((warn_unused_result))
#else
#define XCVM_API
#define XCVM_MUST_USE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the loaded library, as "major.minor.patch". */
XCVM_API const char *xcvm_version(void);

/* ---- Status and error ---- */

#define XCVM_STATUS_LIST(X)                                                                                            \
    X(OK, 0, "success")                                                                                                \
    X(INVALID_ARGUMENT, 1, "an argument is not what the function takes")                                               \
    X(INVALID_PROGRAM, 2, "the program is broken or contradicts itself")                                               \
    X(INVALID_MODEL, 3, "the model is broken or contradicts itself")                                                   \
    X(UNSUPPORTED, 4, "valid, but this build cannot do it")                                                            \
    X(SHAPE_MISMATCH, 5, "the shape of a value is not the expected one")                                               \
    X(TYPE_MISMATCH, 6, "the type of a value is not the expected one")                                                 \
    X(OUT_OF_RANGE, 7, "an index or a size is outside its range")                                                      \
    X(OUT_OF_MEMORY, 8, "memory or the memory limit is used up")                                                       \
    X(OUT_OF_TIME, 9, "the deadline has passed or the fuel is used up")                                                \
    X(CANCELLED, 10, "the run was cancelled")                                                                          \
    X(IO, 11, "a file cannot be read or written")                                                                      \
    X(INTERNAL, 12, "a defect in the library")

typedef enum xcvm_status {
#define XCVM_STATUS(name, number, summary) XCVM_##name = number,
    XCVM_STATUS_LIST(XCVM_STATUS)
#undef XCVM_STATUS
} xcvm_status;

/* Return the name ("OUT_OF_MEMORY") and a sentence for a status, or NULL for an unknown number. */
XCVM_API const char *xcvm_status_name(xcvm_status status);
XCVM_API const char *xcvm_status_summary(xcvm_status status);

/* Describes a failure. Fields that do not apply are -1 or "". */
typedef struct xcvm_error {
    xcvm_status status;
    int32_t pc;           /* instruction index */
    char instruction[32]; /* instruction name, such as "Conv" */
    char node[128];       /* source node of the model */
    char message[600];
} xcvm_error;

/* ---- Callbacks and memory ---- */

/* A callback is a struct of a function and the `user` pointer that it receives. A NULL function means no callback. */

/* Receives successive pieces of a text or file. Returning false makes the calling function fail with IO. */
typedef struct xcvm_sink {
    bool (*call)(void *user, const void *bytes, size_t count);
    void *user;
} xcvm_sink;

/* Receives the text of Print instructions. Returning false makes the instruction fail with IO. */
typedef struct xcvm_printer {
    bool (*call)(void *user, const char *text);
    void *user;
} xcvm_printer;

/* Called once when the memory of a wrapped tensor is no longer used. */
typedef struct xcvm_finalizer {
    void (*call)(void *user);
    void *user;
} xcvm_finalizer;

/* Provides all memory of a library object. `allocate` returns `bytes` bytes aligned to `alignment` (a power of two), or
 * NULL. `release` receives the same size. Both may be called from every thread that uses the object. */
typedef struct xcvm_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} xcvm_allocator;

/* ---- Values ---- */

/* Element types. Numbers below 100 equal ONNX's TensorProto.DataType. f24, the upper three bytes of an f32, stores
 * weights. Elements of fewer than 8 bits are packed, the first in the lowest bits. */
#define XCVM_DTYPE_LIST(X)                                                                                             \
    X(F32, 1, "f32", 32)                                                                                               \
    X(U8, 2, "u8", 8)                                                                                                  \
    X(I8, 3, "i8", 8)                                                                                                  \
    X(U16, 4, "u16", 16)                                                                                               \
    X(I16, 5, "i16", 16)                                                                                               \
    X(I32, 6, "i32", 32)                                                                                               \
    X(I64, 7, "i64", 64)                                                                                               \
    X(STRING, 8, "str", 128)                                                                                           \
    X(BOOL, 9, "bool", 8)                                                                                              \
    X(F16, 10, "f16", 16)                                                                                              \
    X(F64, 11, "f64", 64)                                                                                              \
    X(U32, 12, "u32", 32)                                                                                              \
    X(U64, 13, "u64", 64)                                                                                              \
    X(C64, 14, "c64", 64)                                                                                              \
    X(C128, 15, "c128", 128)                                                                                           \
    X(BF16, 16, "bf16", 16)                                                                                            \
    X(F8E4M3FN, 17, "f8e4m3fn", 8)                                                                                     \
    X(F8E4M3FNUZ, 18, "f8e4m3fnuz", 8)                                                                                 \
    X(F8E5M2, 19, "f8e5m2", 8)                                                                                         \
    X(F8E5M2FNUZ, 20, "f8e5m2fnuz", 8)                                                                                 \
    X(U4, 21, "u4", 4)                                                                                                 \
    X(I4, 22, "i4", 4)                                                                                                 \
    X(F4E2M1, 23, "f4e2m1", 4)                                                                                         \
    X(F8E8M0, 24, "f8e8m0", 8)                                                                                         \
    X(U2, 25, "u2", 2)                                                                                                 \
    X(I2, 26, "i2", 2)                                                                                                 \
    X(F24, 100, "f24", 24)

typedef enum xcvm_dtype {
    XCVM_NO_DTYPE = 0,
#define XCVM_DTYPE(name, number, text, bits) XCVM_##name = number,
    XCVM_DTYPE_LIST(XCVM_DTYPE)
#undef XCVM_DTYPE
} xcvm_dtype;

/* Return the name ("f32") and the bits of one element; "?" and 0 for an unknown number. */
XCVM_API const char *xcvm_dtype_name(xcvm_dtype dtype);
XCVM_API int xcvm_dtype_bits(xcvm_dtype dtype);
/* Returns XCVM_NO_DTYPE for an unknown name. */
XCVM_API xcvm_dtype xcvm_dtype_from_name(const char *name);

#define XCVM_KIND_LIST(X)                                                                                              \
    X(NULL, 0, "null")                                                                                                 \
    X(TENSOR, 1, "tensor")                                                                                             \
    X(SEQUENCE, 2, "sequence")                                                                                         \
    X(OPTIONAL, 3, "optional")                                                                                         \
    X(MAP, 4, "map")                                                                                                   \
    X(OPAQUE, 5, "opaque")

typedef enum xcvm_kind {
#define XCVM_KIND(name, number, text) XCVM_KIND_##name = number,
    XCVM_KIND_LIST(XCVM_KIND)
#undef XCVM_KIND
} xcvm_kind;

enum { XCVM_MAX_RANK = 8 };

/* A dense row-major tensor, a sequence, an optional (at most one item) or a map (two items: keys and values). Values
 * are reference counted. Values that accessors, observers and host functions receive are lent; releasing them does
 * nothing. */
typedef struct xcvm_value xcvm_value;

/* Creates a tensor with uninitialized elements of any type except strings. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tensor_create(const xcvm_allocator *allocator, xcvm_dtype dtype, int rank,
                                                      const int64_t *dims, xcvm_value **tensor, xcvm_error *error);
/* Creates a tensor over the caller's memory without a copy. `data` must stay valid until `release` is called, once,
 * after the last reference is gone; a failed call does not call it. `data` must be aligned to the element
 * size, at most 8 bytes; 64-byte alignment is fastest. It may be NULL if there are no elements. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tensor_wrap(xcvm_dtype dtype, int rank, const int64_t *dims, void *data,
                                                    xcvm_finalizer release, xcvm_value **tensor, xcvm_error *error);
/* Creates a string tensor from a copy of `strings` in row-major order. NULL `lengths` means NUL-terminated strings. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_string_tensor_create(const xcvm_allocator *allocator, int rank,
                                                             const int64_t *dims, const char *const *strings,
                                                             const size_t *lengths, xcvm_value **tensor,
                                                             xcvm_error *error);
/* Creates a sequence, optional or map of `count` values. The list shares counted items and copies lent ones. Lists nest
 * at most 16 deep. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_list_create(const xcvm_allocator *allocator, xcvm_kind kind, size_t count,
                                                    xcvm_value *const *items, xcvm_value **list, xcvm_error *error);
/* Makes a deep copy. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_value_copy(const xcvm_allocator *allocator, const xcvm_value *value,
                                                   xcvm_value **copy, xcvm_error *error);
/* Keeps a value beyond its lender. A counted value gets one more reference. A lent value becomes a new value that does
 * not change any more; memory of a session or program is copied. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_value_retain(const xcvm_value *value, xcvm_value **kept, xcvm_error *error);
/* Releases one reference. NULL and lent values are ignored. */
XCVM_API void xcvm_value_release(xcvm_value *value);

XCVM_API xcvm_kind xcvm_value_kind(const xcvm_value *value);
/* For a list: the element type of its tensors, or XCVM_NO_DTYPE. */
XCVM_API xcvm_dtype xcvm_value_dtype(const xcvm_value *value);
XCVM_API int xcvm_value_rank(const xcvm_value *value);
XCVM_API const int64_t *xcvm_value_dims(const xcvm_value *value);
/* Returns the number of elements of a tensor, or of items of a list. */
XCVM_API size_t xcvm_value_count(const xcvm_value *value);
/* Returns the elements of a tensor; NULL for lists and string tensors. */
XCVM_API void *xcvm_value_data(const xcvm_value *value);
XCVM_API size_t xcvm_value_bytes(const xcvm_value *value);
/* Lends item `index` of a list; NULL if there is none. */
XCVM_API const xcvm_value *xcvm_value_item_at(const xcvm_value *value, size_t index);
/* Lends string `index` of a string tensor, which has no terminating NUL; NULL if there is none. */
XCVM_API const char *xcvm_value_string_at(const xcvm_value *value, size_t index, size_t *length);

/* ---- Programs ---- */

typedef struct xcvm_program xcvm_program;

typedef struct xcvm_load_options {
    size_t size;
    const xcvm_allocator *allocator;
    bool copy;               /* read into own memory instead of mapping the file */
    bool no_libraries;       /* never open a kernel library */
    const char *library_dir; /* directory of kernel libraries; NULL: the program file's directory */
    const char *isa;         /* instruction set of the kernels, such as "x86-64-v3"; NULL: the best of this CPU */
} xcvm_load_options;

/* Loads and verifies a program. The file is mapped, and `bytes` are borrowed: neither may change while the program
 * lives, unless `options->copy` is set. UNSUPPORTED if the CPU lacks `options->isa`. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_program_load_file(const char *path, const xcvm_load_options *options,
                                                          xcvm_program **program, xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcvm_program_load(const void *bytes, size_t count, const xcvm_load_options *options,
                                                     xcvm_program **program, xcvm_error *error);
/* All sessions of the program must have been destroyed. */
XCVM_API void xcvm_program_destroy(xcvm_program *program);

/* The declared type of an input, output or state. A negative dimension is dynamic; dimensions with the same name (NULL:
 * none) must agree. A rank of -1 is undeclared. */
typedef struct xcvm_type {
    xcvm_kind kind;
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    const char *dim_names[XCVM_MAX_RANK];
} xcvm_type;

typedef struct xcvm_value_info {
    const char *name;
    xcvm_type type;
} xcvm_value_info;

XCVM_API size_t xcvm_program_input_count(const xcvm_program *program);
XCVM_API size_t xcvm_program_output_count(const xcvm_program *program);
/* Return NULL if there is no such input or output. */
XCVM_API const xcvm_value_info *xcvm_program_input_at(const xcvm_program *program, size_t index);
XCVM_API const xcvm_value_info *xcvm_program_output_at(const xcvm_program *program, size_t index);

/* Facts about a program. */
typedef struct xcvm_program_info {
    size_t size;
    uint32_t format; /* version of the program format */
    const char *producer;
    size_t instruction_count;
    size_t register_count;
    size_t constant_count;
    size_t constant_bytes;
    size_t arena_bytes; /* planned memory; 0 if nothing could be planned */
    const char *notice; /* reason why a kernel library is not used, or NULL */
} xcvm_program_info;
XCVM_API void xcvm_program_get_info(const xcvm_program *program, xcvm_program_info *info);
/* Lends the value of a metadata key; NULL if there is none. The compiler writes "model" (its producer) and "train" (the
 * optimizer of a training program). It copies "class_names" (one per line) and "class_output" from the model. */
XCVM_API const char *xcvm_program_metadata(const xcvm_program *program, const char *key);

typedef struct xcvm_disassemble_options {
    size_t size;
    size_t literal_limit;     /* most elements of a constant that is written in full; 0: 16 */
    const char *program_path; /* file that larger constants refer to; NULL: all are written in full */
    bool explain;             /* append each instruction's number and meaning */
} xcvm_disassemble_options;

/* Writes a program's text assembly. The program need not pass the verifier. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_disassemble(const void *bytes, size_t count,
                                                    const xcvm_disassemble_options *options, xcvm_sink sink,
                                                    xcvm_error *error);
/* Assembles a text into a program. File references must be below `base_dir` and may not be symbolic links. NULL forbids
 * references; "" allows any path and is for trusted texts only. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_assemble(const char *text, size_t length, const char *base_dir, xcvm_sink sink,
                                                 xcvm_error *error);
/* Writes the same program without debug data. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_strip(const void *bytes, size_t count, xcvm_sink sink, xcvm_error *error);

/* ---- Sessions ---- */

typedef struct xcvm_session xcvm_session;

/* A host function that programs call by name with HostCall. `call` runs on the thread of xcvm_session_run and must not
 * use the session. Inputs are lent and read-only. It stores a tensor of the expected type, with one reference, in each
 * outputs[i]; an input may be returned. A status other than OK ends the run. */
typedef struct xcvm_host_function {
    const char *name;
    xcvm_status (*call)(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                        xcvm_value **outputs, xcvm_error *error);
    void *user;
} xcvm_host_function;

/* Sums over several processes that make the same calls in the same order (docs/embedding.md). */
typedef struct xcvm_all_reduce {
    /* Replaces `count` f32 or f64 elements by their sums over all processes. */
    xcvm_status (*sum)(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);
    /* Asynchronous sums: either all three or none. The host owns the elements from `begin` until `end` sets *done or
     * fails. `end` waits some milliseconds at most and is called again. `abandon` replaces `end` after a failed run. */
    xcvm_status (*begin)(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request, xcvm_error *error);
    xcvm_status (*end)(void *user, void *request, bool *done, xcvm_error *error);
    void (*abandon)(void *user, void *request);
    void *user;
    const xcvm_allocator *allocator; /* memory of the elements; NULL: the session's */
} xcvm_all_reduce;

typedef struct xcvm_session_options {
    size_t size;
    const xcvm_allocator *allocator;     /* NULL: the program's */
    int threads;                         /* including the caller's; 0: affinity and cgroup quota decide */
    size_t memory_limit;                 /* bytes that the session may hold; 0: no limit */
    void *arena;                         /* caller's memory for the plan, 64-byte aligned; NULL: allocated */
    size_t arena_bytes;                  /* at least the program's arena_bytes */
    uint64_t seed;                       /* for random instructions without a seed of their own */
    bool strict_types;                   /* check every result against the compiler's types */
    xcvm_printer print;                  /* none: the text of Print is discarded */
    const xcvm_host_function *functions; /* borrowed for the session's life */
    size_t function_count;
    bool flush_subnormals; /* treat subnormal numbers as zero; see also xcc_options.flush_subnormals */
    /* Another session whose states of the same name and type are shared, or NULL. Sessions that share states belong to
     * one thread at a time, together. They may be destroyed in any order. */
    const xcvm_session *states_of;
    xcvm_all_reduce all_reduce; /* none: one process */
} xcvm_session_options;

/* Creates a session: allocates planned memory and starts threads. With several threads a run may briefly change the
 * affinity of the session's threads, the caller's included. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_create(const xcvm_program *program, const xcvm_session_options *options,
                                                       xcvm_session **session, xcvm_error *error);
XCVM_API void xcvm_session_destroy(xcvm_session *session);

/* Binds a value of the declared type to an input without a copy. The session keeps a reference until the next binding.
 * The caller may change the elements between runs. A lent value, such as an output, is kept as by xcvm_value_retain. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_set_input(xcvm_session *session, size_t index, const xcvm_value *value,
                                                          xcvm_error *error);
/* Makes runs write output `index` into the caller's tensor; NULL unbinds. The session keeps a reference. A run fails if
 * the result has another type or shape, or if the tensor overlaps another output or an unpaired input. The content is
 * unspecified after a failed run. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_set_output(xcvm_session *session, size_t index, xcvm_value *tensor,
                                                           xcvm_error *error);
/* Declares an output and an input a pair, which may be bound to the same memory. The run reads the old value everywhere
 * and writes the new one after success only. A new declaration replaces the output's old one. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_pair(xcvm_session *session, size_t output, size_t input,
                                                     xcvm_error *error);

/* States are tensors that a session keeps between runs. They start with the program's values or zeros. Changes take
 * effect together after a successful run; a failed run changes nothing. None of these functions may be called during a
 * run of a session that shares the state. */
XCVM_API size_t xcvm_program_state_count(const xcvm_program *program);
/* Returns the name and declared type; NULL if there is no such state. */
XCVM_API const xcvm_value_info *xcvm_program_state_at(const xcvm_program *program, size_t index);
/* Lends the current value until the next run or change; NULL if there is no such state. */
XCVM_API const xcvm_value *xcvm_session_get_state(const xcvm_session *session, size_t index);
/* Replaces a state's value. Counted values are shared and never written; lent values are copied. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_set_state(xcvm_session *session, size_t index, const xcvm_value *value,
                                                          xcvm_error *error);
/* Restores the initial value of every state. After a failure no state has changed. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_reset_states(xcvm_session *session, xcvm_error *error);
/* Writes all states as a safetensors file. UNSUPPORTED for element types that the format lacks: packed types, c128, and
 * 8-bit floats other than f8e4m3fn and f8e5m2. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_save_states(const xcvm_session *session, xcvm_sink sink,
                                                            xcvm_error *error);
/* Reads every state from such a file, which may contain other tensors too. A failed call changes no state. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_load_states(xcvm_session *session, const void *bytes, size_t count,
                                                            xcvm_error *error);

typedef struct xcvm_run_options {
    size_t size;
    uint64_t fuel;       /* most instructions to execute; 0: no limit */
    uint64_t timeout_ns; /* 0: no limit */
} xcvm_run_options;

/* Makes the first run about as fast as later ones (docs/embedding.md). It reads constants that fit the cache, and runs
 * a pure program on zeros, up to 32 times in about 0.2 ms. Bound values are neither read nor written; the last results
 * are gone. `options` may be NULL. OUT_OF_TIME or CANCELLED if stopped; the session can run after any outcome. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_warm_up(xcvm_session *session, const xcvm_run_options *options,
                                                        xcvm_error *error);
/* Runs the program on the bound inputs. The session can run again after any outcome. `options` may be NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_run(xcvm_session *session, const xcvm_run_options *options,
                                                    xcvm_error *error);
/* Lends a result of the last run until the next run; NULL before the first run and after a failed one. */
XCVM_API const xcvm_value *xcvm_session_get_output(const xcvm_session *session, size_t index);
/* Makes the current run, or else the next one, fail with CANCELLED. May be called from any thread. */
XCVM_API void xcvm_session_cancel(xcvm_session *session);

typedef struct xcvm_memory_info {
    size_t size;
    size_t live_bytes;     /* held by values now */
    size_t peak_bytes;     /* maximum held by values, arena and scratch */
    size_t reserved_bytes; /* taken from the allocator now */
} xcvm_memory_info;
XCVM_API void xcvm_session_get_memory_info(const xcvm_session *session, xcvm_memory_info *info);
/* Returns the number of threads of a run, the caller's included. */
XCVM_API int xcvm_session_thread_count(const xcvm_session *session);
/* How many threads this process may use: the affinity mask, cut to the cgroup's CPU quota; at least 1. */
XCVM_API int xcvm_available_thread_count(void);

/* ---- Observers ---- */

/* One executed instruction. Everything in the event is lent for the call. */
typedef struct xcvm_event {
    size_t size;
    int32_t pc;
    const char *instruction;
    const char *node;          /* source node, "" if unknown */
    const char *attributes;    /* in text assembly; only with want_attributes */
    uint64_t start_ns, end_ns; /* monotonic clock; end_ns is 0 before execution */
    uint64_t flops;            /* 0 if unknown */
    uint64_t bytes_read, bytes_written;
    size_t live_bytes; /* held by values after the instruction */
    size_t input_count, output_count;
    const xcvm_value *const *inputs; /* NULL entries are absent operands */
    const xcvm_value *const *outputs;
    const int32_t *input_registers; /* 0: absent; negative: constant -1 - register */
    const int32_t *output_registers;
    const char *const *output_names; /* value names in the model, "" if unknown */
    size_t span_count;               /* work of each thread, if the instruction was parallel */
    const struct xcvm_span *spans;
} xcvm_event;

typedef struct xcvm_span {
    int worker;
    uint64_t start_ns, end_ns;
} xcvm_span;

/* Both functions may be NULL. A status other than OK from `after` ends the run. */
typedef struct xcvm_observer {
    size_t size;
    void (*before)(void *user, const xcvm_event *event);
    xcvm_status (*after)(void *user, const xcvm_event *event, xcvm_error *error);
    void *user;
    bool want_attributes;
    bool want_spans;
} xcvm_observer;

/* Sets the session's observer, which is copied; NULL removes it. */
XCVM_API void xcvm_session_set_observer(xcvm_session *session, const xcvm_observer *observer);

/* ---- The instruction set ---- */

typedef struct xcvm_op_info {
    const char *name;
    int number;
    const char *summary;
    const char *shape_rule;
    const char *gradient; /* name of the gradient rule; "zero": no gradient flows; "none": not differentiable */
    size_t operand_count; /* operands and attributes */
} xcvm_op_info;

typedef struct xcvm_operand_info {
    const char *name;
    const char *role; /* "output", "input", "attribute" */
    const char *kind; /* "tensor", "list", "int", "choice", ... */
    bool optional;
    char types[200];   /* allowed element types, such as "f32 f64"; "" for attributes */
    char choices[200]; /* choices of the attribute, separated by "|"; otherwise the default or "" */
} xcvm_operand_info;

/* Enumerate the instructions in the order of the reference page. Strings are constants. Return false past the end. */
XCVM_API size_t xcvm_op_count(void);
XCVM_API bool xcvm_op_at(size_t index, xcvm_op_info *info);
XCVM_API bool xcvm_op_operand_at(size_t index, size_t operand, xcvm_operand_info *info);

#ifdef __cplusplus
}
#endif
#endif
