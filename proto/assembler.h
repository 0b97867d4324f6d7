/* The state of the assembler, which its files have in common: the program that is being made. */
#ifndef XCVM_PROTO_ASSEMBLER_H
#define XCVM_PROTO_ASSEMBLER_H

#include "base/array.h"
#include "proto/image.h"
#include "proto/name_index.h"
#include "proto/reader.h"

/* A name that the text uses, looked up once all of it is read. */
typedef struct xcvm_reference {
    const char *name; /* NULL: a constant's `number` */
    size_t number;
    int line;
    size_t position;  /* of the operand among those of its instruction */
    int32_t *operand; /* of a constant: becomes -1 - number */
    int64_t *target;  /* of a label: becomes the instruction's number */
    size_t state;     /* index of the state that begins with a constant, plus 1; 0: of no state */
} xcvm_reference;

typedef struct xcvm_assembler {
    xcvm_reader r;
    xcvm_arena scratch; /* of what is needed up to the end of the text only */
    const char *base_dir;
    xcvm_image image;
    size_t input_capacity, output_capacity, instruction_capacity, constant_capacity, library_capacity,
        metadata_capacity, state_capacity;
    xcvm_name_index constants, labels;
    xcvm_reference *references;
    size_t reference_count, reference_capacity;
    int32_t *operands; /* of the instruction that is being read */
    size_t operand_count, operand_capacity;
} xcvm_assembler;

/* Adds a zeroed entry to an array in an arena and points `entry` to it, or fails the function. */
#define XCVM_APPEND(a, arena, array, count, capacity, entry)                                                           \
    do {                                                                                                               \
        void *grown_ = xcvm_arena_grow((arena), (array), (count), &(capacity), sizeof *(array));                       \
        if (grown_ == NULL)                                                                                            \
            return xcvm_reader_no_memory(&(a)->r);                                                                     \
        (array) = grown_;                                                                                              \
        (entry) = &(array)[(count)++];                                                                                 \
        memset((entry), 0, sizeof *(entry));                                                                           \
    } while (0)

/* Reads what stands behind the @ of a constant that is referred to; *reference is resolved at the end of the text. */
xcvm_status xcvm_assemble_reference(xcvm_assembler *a, xcvm_reference **reference);
/* Reads a statement other than an instruction or a label; the reader stands behind `word`. */
xcvm_status xcvm_assemble_header(xcvm_assembler *a, const char *word, size_t length);
/* Reads an instruction from its results on. */
xcvm_status xcvm_assemble_instruction(xcvm_assembler *a);

#endif
