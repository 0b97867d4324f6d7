/* The state of the assembler, shared by its files: the program under construction. */
#ifndef XCVM_PROTO_ASSEMBLER_H
#define XCVM_PROTO_ASSEMBLER_H

#include "base/array.h"
#include "proto/image.h"
#include "proto/literal_files.h"
#include "proto/name_index.h"
#include "proto/reader.h"

/* A name used in the text, resolved after all of it is read. */
typedef struct xcvm_reference {
    const char *name; /* NULL: refers to constant `number` */
    size_t number;
    int line;
    size_t position;  /* operand position in its instruction */
    int32_t *operand; /* for a constant; set to -1 - number */
    int64_t *target;  /* for a label; set to the instruction's number */
    size_t state;     /* for a state's initial constant, state index + 1; else 0 */
} xcvm_reference;

typedef struct xcvm_assembler {
    xcvm_reader r;
    xcvm_arena scratch; /* temporary data until the end of the text */
    xcvm_literal_files files;
    xcvm_image image;
    size_t input_capacity, output_capacity, instruction_capacity, constant_capacity, library_capacity,
        metadata_capacity, state_capacity;
    xcvm_name_index constants, labels;
    xcvm_reference *references;
    size_t reference_count, reference_capacity;
    int32_t *operands; /* of the current instruction */
    size_t operand_count, operand_capacity;
} xcvm_assembler;

/* Appends a zeroed entry to an array in an arena and points `entry` to it, or fails the function. */
#define XCVM_APPEND(a, arena, array, count, capacity, entry)                                                           \
    do {                                                                                                               \
        void *grown_ = xcvm_arena_grow((arena), (array), (count), &(capacity), sizeof *(array));                       \
        if (grown_ == NULL)                                                                                            \
            return xcvm_reader_no_memory(&(a)->r);                                                                     \
        (array) = grown_;                                                                                              \
        (entry) = &(array)[(count)++];                                                                                 \
        memset((entry), 0, sizeof *(entry));                                                                           \
    } while (0)

/* Reads a reference to a constant after its @. *reference is resolved at the end of the text. */
xcvm_status xcvm_assemble_reference(xcvm_assembler *a, xcvm_reference **reference);
/* Reads a statement that is neither an instruction nor a label. The reader is positioned after `word`. */
xcvm_status xcvm_assemble_header(xcvm_assembler *a, const char *word, size_t length);
/* Reads an instruction, starting with its results. */
xcvm_status xcvm_assemble_instruction(xcvm_assembler *a);

#endif
