/*
 * XCVM: load and run compiled neural-network programs.
 *
 * Ownership. A function whose name ends in _create, _load..., _wrap, _assemble, _copy or _retain gives its caller the
 * result; the matching _destroy or _release takes it back and accepts NULL. Everything an accessor returns is lent by
 * the object asked, and lives no longer than that object; xcvm_value_copy and xcvm_value_retain keep a lent value.
 *
 * Threads. A program is immutable: any number of threads may use one. A session, and the values that it lends,
 * belong to one thread at a time; xcvm_session_cancel alone may be called from any thread. Reference counts of
 * values are atomic, and a value that its holder has a reference to may be released on any thread.
 *
 * Errors. A call that can fail returns a status and, if `error` is not NULL, fills it. Outputs are written on
 * success only.
 *
 * Option structs start with their size: initialise them with { .size = sizeof(the struct) }; zero in any other
 * field asks for the default.
 */
#ifndef XCVM_XCVM_H
#define XCVM_XCVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XCVM_VERSION_MAJOR 0
#define XCVM_VERSION_MINOR 1
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

/* The version of the library that is running, as "major.minor.patch". */
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

/* "OUT_OF_MEMORY"; and "memory or the memory limit is used up". NULL for a number that is no status. */
XCVM_API const char *xcvm_status_name(xcvm_status status);
XCVM_API const char *xcvm_status_summary(xcvm_status status);

/* What went wrong and where. pc is -1 and the strings are empty where they do not apply. */
typedef struct xcvm_error {
    xcvm_status status;
    int32_t pc;           /* index of the instruction */
    char instruction[32]; /* its name, as in "Conv" */
    char node[128];       /* the source node that it was compiled from */
    char message[600];
} xcvm_error;

/* ---- Memory ---- */

/* Where a library object takes all its memory from. `allocate` returns at least `bytes` bytes aligned to `alignment`
 * (a power of two), or NULL; `release` gets the same size back. Both must be callable from every thread that uses the
 * objects made with them. */
typedef struct xcvm_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} xcvm_allocator;

/* ---- Values ---- */

/* Element types. The numbers below 100 are those of ONNX's TensorProto.DataType. From 100 on they are of types that
 * ONNX has not: f24 is the upper three bytes of an f32, which weights may be stored in. Elements of fewer than 8 bits
 * are packed, the first in the lowest bits. */
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

/* "f32" for XCVM_F32, "?" for a number that is no element type; bits of one element, 0 likewise. */
XCVM_API const char *xcvm_dtype_name(xcvm_dtype dtype);
XCVM_API int xcvm_dtype_bits(xcvm_dtype dtype);
/* XCVM_NO_DTYPE if no element type has that name. */
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

/* A tensor (dense, row-major), a sequence of values, an optional (a list of at most one value) or a map (a list of
 * two values: keys and items). Reference counted: _create, _wrap, _copy and _retain return one reference, which
 * xcvm_value_release gives back. What accessors, observers and host functions are given is lent: it has no references
 * of its own, and releasing it does nothing. */
typedef struct xcvm_value xcvm_value;

/* A tensor with uninitialised elements. A string tensor is made with xcvm_string_tensor_create. `allocator` may be
 * NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tensor_create(const xcvm_allocator *allocator, xcvm_dtype dtype, int rank,
                                                      const int64_t *dims, xcvm_value **tensor, xcvm_error *error);
/* A tensor over the caller's memory, which is not copied: `data` holds the elements and must stay valid until `release`
 * (may be NULL) is called with `user`, once, when the last reference is gone. `data` is aligned to the size of an
 * element, at most 8 bytes (INVALID_ARGUMENT if not; 64 bytes are read fastest), and may be NULL if there are no
 * elements. What describes the tensor, some hundred bytes, comes from malloc. In failure `release` is not called. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tensor_wrap(xcvm_dtype dtype, int rank, const int64_t *dims, void *data,
                                                    void (*release)(void *user), void *user, xcvm_value **tensor,
                                                    xcvm_error *error);
/* A string tensor; strings and lengths (NULL: the strings end with NUL) are copied, in row-major order. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_string_tensor_create(const xcvm_allocator *allocator, int rank,
                                                             const int64_t *dims, const char *const *strings,
                                                             const size_t *lengths, xcvm_value **tensor,
                                                             xcvm_error *error);
/* A sequence, optional or map of `count` values. The list shares their elements, and for that holds references of its
 * own: what is written to a tensor later is seen in the list. Elements of lent values are copied. Lists nest at most 16
 * deep. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_list_create(const xcvm_allocator *allocator, xcvm_kind kind, size_t count,
                                                    xcvm_value *const *items, xcvm_value **list, xcvm_error *error);
/* A value of its own with the same elements, of lists as deep as they nest, in memory from `allocator` (NULL:
 * malloc's): nothing that happens to `value` or its lender changes it. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_value_copy(const xcvm_allocator *allocator, const xcvm_value *value,
                                                   xcvm_value **copy, xcvm_error *error);
/* Keeps a value: *kept has one reference more for the caller. If `value` is counted, *kept is `value` itself. If it is
 * lent, by a session, a list, an observer's event or to a host function, *kept is a new value that stays as it is now:
 * it shares what the caller has references to anyway (items of a list of the caller's), and copies what lies in memory
 * of a session or program, into memory from malloc. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_value_retain(const xcvm_value *value, xcvm_value **kept, xcvm_error *error);
/* Gives one reference back. NULL and lent values are accepted, and nothing is done. */
XCVM_API void xcvm_value_release(xcvm_value *value);

XCVM_API xcvm_kind xcvm_value_kind(const xcvm_value *value);
/* Of a tensor; for a list, the element type of the tensors in it, or XCVM_NO_DTYPE. */
XCVM_API xcvm_dtype xcvm_value_dtype(const xcvm_value *value);
XCVM_API int xcvm_value_rank(const xcvm_value *value);
XCVM_API const int64_t *xcvm_value_dims(const xcvm_value *value);
/* Elements of a tensor, items of a list. */
XCVM_API size_t xcvm_value_count(const xcvm_value *value);
/* A tensor's elements; NULL for lists and for string tensors. */
XCVM_API void *xcvm_value_data(const xcvm_value *value);
XCVM_API size_t xcvm_value_bytes(const xcvm_value *value);
/* Item `index` of a list, lent; NULL if there is none. */
XCVM_API const xcvm_value *xcvm_value_item(const xcvm_value *value, size_t index);
/* String `index` of a string tensor (not NUL-terminated) and its length; NULL if there is none. */
XCVM_API const char *xcvm_value_string(const xcvm_value *value, size_t index, size_t *length);

/* ---- Programs ---- */

typedef struct xcvm_program xcvm_program;

typedef struct xcvm_load_options {
    size_t size;
    const xcvm_allocator *allocator; /* NULL: malloc's */
    bool copy;                       /* into memory of its own, instead of mapping the file */
    bool no_libraries;               /* never open a kernel library; run the unfused instructions */
    const char *library_dir;         /* where kernel libraries may lie; NULL: beside the program file only */
    /* The instruction set whose kernels run, as "x86-64-v3", for the same bits on different CPUs, or to compare;
     * UNSUPPORTED if this CPU is below it, or this library has no kernels for it. NULL: this CPU's best. */
    const char *isa;
} xcvm_load_options;

/* Loads and verifies a program. The file is mapped and must not be changed while the program lives, and `bytes` of
 * xcvm_program_load are lent to it and must stay as they are so long; with `options->copy` both are copied. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_program_load_file(const char *path, const xcvm_load_options *options,
                                                          xcvm_program **program, xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcvm_program_load(const void *bytes, size_t count, const xcvm_load_options *options,
                                                     xcvm_program **program, xcvm_error *error);
/* Sessions of a program must be destroyed before it. */
XCVM_API void xcvm_program_destroy(xcvm_program *program);

/* What a value at the edge of a program is declared to be. A dimension below 0 is not fixed; its name, if it has one,
 * is in dim_names (NULL otherwise), and dimensions of one name must agree. rank is -1 if it is not declared. */
typedef struct xcvm_type {
    xcvm_kind kind;
    xcvm_dtype dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    const char *dim_names[XCVM_MAX_RANK];
} xcvm_type;

typedef struct xcvm_parameter {
    const char *name;
    xcvm_type type;
} xcvm_parameter;

XCVM_API size_t xcvm_program_input_count(const xcvm_program *program);
XCVM_API size_t xcvm_program_output_count(const xcvm_program *program);
/* NULL if there is no such input or output. */
XCVM_API const xcvm_parameter *xcvm_program_input(const xcvm_program *program, size_t index);
XCVM_API const xcvm_parameter *xcvm_program_output(const xcvm_program *program, size_t index);

/* Facts about a program as a whole. */
typedef struct xcvm_program_info {
    size_t size;     /* set by the caller */
    uint32_t format; /* version of the program format */
    const char *producer;
    size_t instruction_count;
    size_t register_count;
    size_t constant_count;
    size_t constant_bytes;
    size_t arena_bytes; /* planned memory; 0 if nothing could be planned */
    const char *notice; /* why a kernel library is not used, as a sentence; NULL if there is nothing to say */
} xcvm_program_info;
XCVM_API void xcvm_program_describe(const xcvm_program *program, xcvm_program_info *info);
/* The value of a metadata key; NULL if the program has none. The compiler writes "model" (the producer of the model),
 * "train" (the optimizer of a training program), and, from the model's own metadata, "class_names" (names of classes in
 * their order, one on a line) and "class_output" (the output that has the classes' scores). */
XCVM_API const char *xcvm_program_metadata(const xcvm_program *program, const char *key);

/* Called with successive pieces of a text or file; stops and fails the caller with IO if it returns false. */
typedef bool (*xcvm_sink)(void *user, const void *bytes, size_t count);

typedef struct xcvm_dump_options {
    size_t size;
    size_t literal_limit;     /* constants of up to this many elements are written out; 0: 16 */
    const char *program_path; /* larger ones are referred to in this file; NULL: all are written out */
    bool explain;             /* append each instruction's number and what it does, with its registers filled in */
} xcvm_dump_options;

/* The text assembly of a program file's bytes (they need not pass the verifier), and back. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_disassemble(const void *bytes, size_t count, const xcvm_dump_options *options,
                                                    xcvm_sink sink, void *user, xcvm_error *error);
/* `base_dir`: folder that file references of the text are relative to and opened beneath, links not being followed;
 * NULL allows no references. "" allows any path, relative to the current directory: for texts of the user's own. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_assemble(const char *text, size_t length, const char *base_dir, xcvm_sink sink,
                                                 void *user, xcvm_error *error);
/* The same program without debug data. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_strip(const void *bytes, size_t count, xcvm_sink sink, void *user,
                                              xcvm_error *error);

/* ---- Sessions ---- */

typedef struct xcvm_session xcvm_session;

/* A function of the host's that programs may call by name with HostCall, as models do with DoSomething of org.chainer.
 * `call` runs within xcvm_session_run, on its thread, and must not use the session. The inputs are lent for the call
 * and must not be written. It sets outputs[i], NULL before, to a tensor of the type that the program expects, with one
 * reference, which it gives away; inputs may be given back as they are. A status other than OK ends the run with it;
 * `error` (may be NULL) is for the message, as of any call, and what has been put into outputs is released. */
typedef struct xcvm_host_function {
    const char *name;
    xcvm_status (*call)(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                        xcvm_value **outputs, xcvm_error *error);
    void *user;
} xcvm_host_function;

typedef struct xcvm_session_options {
    size_t size;
    const xcvm_allocator *allocator;             /* NULL: the program's */
    int threads;                                 /* including the caller's; 0: what affinity and cgroup quota allow */
    size_t memory_limit;                         /* bytes that the session may hold at once; 0: no limit */
    void *arena;                                 /* caller's memory for the plan, 64-byte aligned; NULL: allocated */
    size_t arena_bytes;                          /* at least the program's arena_bytes */
    uint64_t seed;                               /* for random instructions that have no seed of their own */
    bool strict_types;                           /* check every result against the types noted by the compiler */
    bool (*print)(void *user, const char *text); /* receives what Print prints; NULL: discarded */
    void *user;
    const xcvm_host_function *functions; /* lent for the session's life; a call of any other fails, naming it */
    size_t function_count;
    /* Takes and gives subnormal numbers (of f32 below 1.2e-38) as zero, which is faster where there are many and the
     * processor is slow with them. Constants are folded when a program is compiled: xcc_options.flush_subnormals. */
    bool flush_subnormals;
    /* Another session, of this or another program, of which states of the same names, which must be of the same types,
     * are shared: as of a program that learns and one that evaluates. Sessions that share states belong to one thread
     * at a time, together; each may be destroyed before the other. NULL: every state is the session's own. */
    const xcvm_session *states_of;
    /* For AllReduce: replaces each of `count` elements, of f32 or f64, by its sum over all processes that run the
     * program together, which call it in the same order. On the thread that runs the session. NULL: there is one
     * process. */
    xcvm_status (*all_reduce)(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);
    void *all_reduce_user;
    /* The same for AllReduceBegin and AllReduceEnd, sums that are made while the run goes on; all three, or none, and
     * then all_reduce makes them at once. `begin` is called in the same order by all processes, among calls of
     * all_reduce, too; the elements belong to the host until `end` has said that it is done, or has failed. `end` waits
     * for some milliseconds at most, so that a run can be cancelled meanwhile, and is called again. `abandon` is
     * called, in place of it, when a run has failed in between: the elements are not touched any more when it returns.
     */
    xcvm_status (*all_reduce_begin)(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request,
                                    xcvm_error *error);
    xcvm_status (*all_reduce_end)(void *user, void *request, bool *done, xcvm_error *error);
    void (*all_reduce_abandon)(void *user, void *request);
    /* Where the elements that all_reduce_begin is given come from, so that a host may place them where other processes
     * see them; they count against memory_limit. It is lent for the session's life. NULL: as all else. */
    const xcvm_allocator *all_reduce_allocator;
} xcvm_session_options;

/* Takes the memory of the plan, starts the threads and maps the constants; executes nothing. With more than one thread,
 * a run may narrow the affinity of the session's threads, the one that calls it included, and restore it at once, to
 * bring one that lost its processor to another's. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_create(const xcvm_program *program, const xcvm_session_options *options,
                                                       xcvm_session **session, xcvm_error *error);
XCVM_API void xcvm_session_destroy(xcvm_session *session);

/* Binds a value to an input, checked against the declared type. The session keeps a reference until the input is bound
 * anew or the session is destroyed; elements are not copied and not written. The caller may write them between runs.
 * A lent value may be bound, too, such as an output of this or another session: it is kept as it is now, for which
 * elements that lie in memory of a session's plan or of another session are copied. INVALID_ARGUMENT for a tensor
 * that was wrapped around memory of the session's own plan. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_set_input(xcvm_session *session, size_t index, const xcvm_value *value,
                                                          xcvm_error *error);
/* Lets output `index` be written straight into a tensor of the caller's, of which the session keeps a reference; NULL
 * unbinds. A run whose result has another type or shape fails. The tensor must be counted, not lent, and may have
 * memory in common neither with another output's nor, unless they are a pair, with an input's: the run fails. Another
 * tensor of the same type and shape, as of two buffers in turn, costs nothing. What a failed run leaves in it is
 * unspecified. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_set_output(xcvm_session *session, size_t index, xcvm_value *tensor,
                                                           xcvm_error *error);
/* Declares output `output` and input `input` a pair, one tensor before and after a run, such as a state: from now on
 * they may be bound to the very same memory, all of it. A run that finds them so computes the output elsewhere and
 * copies it once all has been computed, so that every instruction reads what the input was before; a run that fails
 * leaves it unchanged. An output has one pair; a new declaration replaces it. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_pair(xcvm_session *session, size_t output, size_t input,
                                                     xcvm_error *error);

/* States: tensors that a session keeps from one run to the next, such as parameters that learn and what an optimizer
 * remembers. A program declares them; a session begins with the values that the program has for them, or zeros. What a
 * run changes takes effect when it has ended well: one that fails, is cancelled or out of time leaves every state as it
 * was. No function here may be called during a run of a session that shares the state. */
XCVM_API size_t xcvm_program_state_count(const xcvm_program *program);
/* Its name, and the type that it always has, of which dimensions may be open. NULL if there is no such state. */
XCVM_API const xcvm_parameter *xcvm_program_state(const xcvm_program *program, size_t index);
/* What a state is, lent until the next run or change; NULL if there is no such state. */
XCVM_API const xcvm_value *xcvm_session_state(const xcvm_session *session, size_t index);
/* Gives a state another value, of its type. Elements are shared, and never written, if the value is counted; else they
 * are copied. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_set_state(xcvm_session *session, size_t index, const xcvm_value *value,
                                                          xcvm_error *error);
/* All states become what they were when the session was made. If there is no memory for that, some may have. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_reset_states(xcvm_session *session, xcvm_error *error);
/* All states as a safetensors file, each under its name, piece by piece. UNSUPPORTED for types that the format has
 * not: packed ones, c128, and 8-bit floating-point other than f8e4m3fn and f8e5m2. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_save_states(const xcvm_session *session, xcvm_sink sink, void *user,
                                                            xcvm_error *error);
/* Gives every state its value in such a file, which may hold more tensors than there are states. In failure, as where
 * one is missing or of another type, no state has changed. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_restore_states(xcvm_session *session, const void *bytes, size_t count,
                                                               xcvm_error *error);

typedef struct xcvm_run_options {
    size_t size;
    uint64_t fuel;       /* instructions that may run; 0: no limit */
    uint64_t timeout_ns; /* 0: no limit */
} xcvm_run_options;

/* Makes the first run about as fast as later ones, by what creation leaves out: reads the constants, if they fit into
 * the cache, and runs to warm up. A warm-up run is one on zeros, whatever is bound, of a program that only computes, on
 * inputs of fixed sizes of up to 4 MB, without jumps or random numbers; it stops after 0.2 ms, is repeated a few times
 * if it is over before, and takes up to 64 MB beyond the plan, within the memory limit. Other programs have no warm-up
 * runs. What is bound is neither read nor written; the results of the last run are gone, as after a run. `options` (may
 * be NULL) as for a run: fuel is for each warm-up run, and the timeout for all. OUT_OF_TIME or CANCELLED if that
 * stopped it. That the program fails on zeros is no failure; after any outcome the session can run. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_warm_up(xcvm_session *session, const xcvm_run_options *options,
                                                        xcvm_error *error);
/* Runs the program on the bound inputs. After any outcome the session can run again. `options` may be NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_session_run(xcvm_session *session, const xcvm_run_options *options,
                                                    xcvm_error *error);
/* The result of the last run, lent until the next one; NULL before the first or after a failed one. */
XCVM_API const xcvm_value *xcvm_session_output(const xcvm_session *session, size_t index);
/* Makes the current run, or if none is under way the next one, stop with CANCELLED. From any thread. */
XCVM_API void xcvm_session_cancel(xcvm_session *session);

typedef struct xcvm_memory_info {
    size_t size;           /* set by the caller */
    size_t live_bytes;     /* held by values now */
    size_t peak_bytes;     /* most ever held by values, arena and scratch */
    size_t reserved_bytes; /* taken from the allocator now */
} xcvm_memory_info;
XCVM_API void xcvm_session_memory(const xcvm_session *session, xcvm_memory_info *info);
/* How many threads its runs use, the caller's included; where 0 were asked for, what that came to. */
XCVM_API int xcvm_session_threads(const xcvm_session *session);
/* How many threads this process may use: the affinity mask, cut to the cgroup's CPU quota; at least 1. */
XCVM_API int xcvm_available_threads(void);

/* ---- Observers ---- */

/* One executed instruction, as seen by an observer; everything in it is lent for the call. */
typedef struct xcvm_event {
    size_t size;
    int32_t pc;
    const char *instruction;
    const char *node;          /* source node, "" if unknown */
    const char *attributes;    /* as in the text assembly, "" if none; only with want_attributes */
    uint64_t start_ns, end_ns; /* monotonic clock; end_ns is 0 before execution */
    uint64_t flops;            /* 0 if unknown */
    uint64_t bytes_read, bytes_written;
    size_t live_bytes; /* held by values after the instruction */
    size_t input_count, output_count;
    const xcvm_value *const *inputs; /* NULL entries are absent operands */
    const xcvm_value *const *outputs;
    const int32_t *input_registers; /* 0: absent; below 0: constant -1 - register */
    const int32_t *output_registers;
    const char *const *output_names; /* names of the values in the model, "" if unknown */
    size_t span_count;               /* what each worker did within the instruction, if it was split */
    const struct xcvm_span *spans;
} xcvm_event;

typedef struct xcvm_span {
    int worker;
    uint64_t start_ns, end_ns;
} xcvm_span;

/* `before` and `after` may be NULL. A status other than OK from `after` stops the run with it. */
typedef struct xcvm_observer {
    size_t size;
    void (*before)(void *user, const xcvm_event *event);
    xcvm_status (*after)(void *user, const xcvm_event *event, xcvm_error *error);
    void *user;
    bool want_attributes;
    bool want_spans;
} xcvm_observer;

/* The observer is copied; NULL removes it. */
XCVM_API void xcvm_session_set_observer(xcvm_session *session, const xcvm_observer *observer);

/* ---- The instruction set ---- */

typedef struct xcvm_op_info {
    const char *name;
    int number;
    const char *summary;
    const char *shape_rule;
    const char *gradient; /* the name of its rule of differentiation; "zero": no gradient flows through it, by nature
                             (of rounding, unless straight-through gradients are asked for); "none": it cannot be
                             differentiated */
    size_t operand_count; /* operands and attributes */
} xcvm_op_info;

typedef struct xcvm_operand_info {
    const char *name;
    const char *role; /* "output", "input", "attribute" */
    const char *kind; /* "tensor", "list", "int", "choice", ... */
    bool optional;
    char types[200];   /* allowed element types, as "f32 f64"; "" for attributes */
    char choices[200]; /* of a choice attribute, separated by "|"; otherwise the default, or "" */
} xcvm_operand_info;

/* The instructions, in the order of the reference page. The texts that `info` points to are constants. false past the
 * end. */
XCVM_API size_t xcvm_op_count(void);
XCVM_API bool xcvm_op(size_t index, xcvm_op_info *info);
XCVM_API bool xcvm_op_operand(size_t index, size_t operand, xcvm_operand_info *info);

#ifdef __cplusplus
}
#endif
#endif
