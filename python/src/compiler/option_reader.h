/* Reading option structs of the libraries from dicts, by tables of names and members. */
#ifndef XCVM_PYTHON_SRC_COMPILER_OPTION_READER_H
#define XCVM_PYTHON_SRC_COMPILER_OPTION_READER_H

#include "capi.h"

#include <xcvm/compiler.h>

typedef enum option_kind {
    OPTION_BOOL,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_INT,    /* int */
    OPTION_I64,    /* int64_t */
    OPTION_U64,    /* uint64_t */
    OPTION_SIZE,   /* size_t */
    OPTION_REAL,   /* double */
    OPTION_DTYPE,  /* xcvm_dtype, by its name */
    OPTION_ENUM,   /* an enum, by the index of its name in `names` */
    OPTION_NAMES,  /* const char *const *, and a count */
    OPTION_PAIRS,  /* an array of two texts each, and a count */
    OPTION_DIMS,   /* xcc_dim *, and a count */
    OPTION_GROUPS, /* xcc_training_group *, and a count */
} option_kind;

typedef struct option_row {
    const char *name;
    option_kind kind;
    size_t offset, count_offset;
    const char *names; /* of OPTION_ENUM, separated by | */
} option_row;

/* Memory that options refer to. */
typedef struct option_memory {
    PyObject *kept; /* list of objects whose memory is in use; created on first use */
    void **blocks;  /* arrays */
    size_t block_count;
} option_memory;

/* Stores each value of a dict in the member of `target` that `rows` (`count` of them) has for its name. None leaves a
 * member as it is. `what` names the options in messages. Returns -1 with an exception. */
int option_memory_read(option_memory *memory, const option_row *rows, size_t count, void *target, PyObject *dict,
                       const char *what);
void option_memory_release(option_memory *memory);

#endif
