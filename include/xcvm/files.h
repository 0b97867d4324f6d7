/* Recognizing files by their first bytes. The conventions of xcvm.h apply; reentrant. */
#ifndef XCVM_FILES_H
#define XCVM_FILES_H

#include "xcvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of files. */
typedef enum xcvm_file_kind {
    XCVM_FILE_UNKNOWN,
    XCVM_FILE_PROGRAM,
    XCVM_FILE_ASSEMBLY, /* the text of a program */
    XCVM_FILE_MODEL,    /* ONNX */
    XCVM_FILE_ARRAYS,   /* .npy, .npz, .safetensors */
    XCVM_FILE_IMAGE,    /* of a format that data sets can have */
    XCVM_FILE_OTHER     /* a file of another system, an archive, a pointer to a file, a page, a text */
} xcvm_file_kind;
/* Recognizes a file from all of its bytes or its beginning. If the kind is known and differs from `wanted`, `text`
 * (`size` bytes; may be NULL) receives a sentence that says what it is and what to do; else "". Loading functions
 * include this sentence in their errors. */
XCVM_API xcvm_file_kind xcvm_recognize(const void *bytes, size_t count, xcvm_file_kind wanted, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
