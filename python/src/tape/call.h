/* A call of an instruction while its arguments are read; shared by call.c and attributes.c. */
#ifndef XCVM_PYTHON_SRC_TAPE_CALL_H
#define XCVM_PYTHON_SRC_TAPE_CALL_H

#include "tape_module.h"

#include <stdalign.h>

/* Memory of lists, freed after the call. */
enum { INLINE_BYTES = 1024 };
typedef struct scratch {
    size_t used;
    void **blocks; /* larger lists */
    size_t block_count;
    alignas(16) char bytes[INLINE_BYTES];
} scratch;

typedef struct call_frame {
    tape_object *tape;
    const instruction *row;
    const field *fields;
    size_t field_count;
    scratch memory;
    PyObject *kept; /* list of objects whose memory is in use; NULL: none yet */
    alignas(16) char call[MAX_CALL_SIZE];
    /* Results by field: the place of single ones, and the list of the last. */
    xcvm_var results[MAX_RESULTS];
    bool wanted[MAX_RESULTS];
    xcvm_var *list;
    size_t list_count;
    size_t order[MAX_RESULTS], order_count; /* results to return; by the number of the result */
    bool as_tuple;
} call_frame;

/* Takes memory that lives until the end of the call. NULL with an exception. */
void *call_take_memory(scratch *memory, size_t count, size_t size);
void call_frame_release(call_frame *f);
/* Keeps an object until the end of the call. Takes the reference. */
int call_keep(call_frame *f, PyObject *object);
/* Puts the instruction's name and the field's before the message of the current exception. Returns -1. */
int call_name_field(const call_frame *f, const char *what, const char *name);
/* A list of the items of an object, kept until the end of the call. Borrowed. */
PyObject *call_items(call_frame *f, PyObject *object, Py_ssize_t *count);
int call_read_int(PyObject *object, int64_t *number);
int call_read_attributes(call_frame *f, PyObject *attributes);

#endif
