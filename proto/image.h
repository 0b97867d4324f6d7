/* A program in memory, between its file and the machine: what the compiler and the assembler make, what the loader, the
 * disassembler and strip read. One decoder and one encoder, driven by the fields of the instruction table. */
#ifndef XCVM_PROTO_IMAGE_H
#define XCVM_PROTO_IMAGE_H

#include "ops/op.h"

enum { XCVM_FORMAT = 1 };

typedef struct xcvm_slot {
    uint64_t offset, bytes; /* bytes 0: not planned */
} xcvm_slot;

typedef struct xcvm_debug {
    const char *node;       /* never NULL */
    const char **names;     /* of the results; NULL if unknown, else out_count entries, none NULL */
    const xcvm_type *types; /* likewise */
    uint64_t flops;
} xcvm_debug;

typedef struct xcvm_instruction {
    const xcvm_schema *schema;
    /* The row's argument struct with the attributes filled in. Operand pointers in it are NULL; list fields have their
     * count and a NULL `at`. Only the machine binds operands, in a copy. */
    void *args;
    /* Operands in row order, lists spread out: above 0 a register, 0 absent, below 0 constant -1 - entry. */
    const int32_t *in;
    /* Registers of the results, likewise; 0 absent. */
    const int32_t *out;
    uint32_t in_count, out_count;
    const xcvm_slot *slots; /* out_count entries, or NULL */
    xcvm_debug debug;
} xcvm_instruction;

typedef struct xcvm_constant {
    const char *name;
    xcvm_value value; /* memory_kind CONSTANT; data lent by the bytes that were decoded, or by the producer */
    uint64_t offset;  /* in the data of the file; set by decode */
} xcvm_constant;

/* A tensor that a session keeps from one run to the next. */
typedef struct xcvm_state_declaration {
    xcvm_value_info declared; /* its name, and what it always is; dimensions may be open */
    uint32_t initial;         /* index of the constant that it begins with, plus 1; 0: zeros, open dimensions being 0 */
} xcvm_state_declaration;

typedef struct xcvm_library {
    const char *file;
    uint8_t hash[32]; /* SHA-256 */
    uint32_t abi;
    const char *isa;
} xcvm_library;

typedef struct xcvm_metadata {
    const char *key, *value;
} xcvm_metadata;

typedef struct xcvm_image {
    uint32_t format;
    const char *producer;
    xcvm_value_info *inputs, *outputs;
    size_t input_count, output_count;
    xcvm_instruction *instructions;
    size_t instruction_count;
    xcvm_constant *constants;
    size_t constant_count;
    xcvm_library *libraries;
    size_t library_count;
    xcvm_metadata *metadata;
    size_t metadata_count;
    xcvm_state_declaration *states;
    size_t state_count;
    uint64_t arena_bytes;
    uint64_t data_offset; /* of the constants in the file; set by decode */
    uint64_t data_bytes;
} xcvm_image;

/* Decodes a program file. Everything but the constants' elements is allocated in `arena`; those are lent by `bytes`,
 * whose alignment they share: where `bytes` is not on a multiple of 64, neither are they.
 * Checks everything that concerns one message by itself: known instructions, the number and tag of operands and
 * attributes against the row, attribute ranges, choices, dtypes, ranks, names without NUL, constants inside the data,
 * on multiples of 64, in ascending order without overlap and of the size that their type says. The characters of string
 * constants follow their spans in order and without gaps, bools are 0 or 1, unused bits of packed types 0: a value has
 * one form. Operand kinds, and registers' and jump targets' ranges, are vm/verify.c's, as is everything else that
 * concerns the program as a whole. A message names the instruction ("instruction 12 (Conv): ...").
 * Memory taken is proportional to the bytes in front of the constants. */
xcvm_status xcvm_image_decode(const void *bytes, size_t count, const xcvm_allocator *allocator, xcvm_arena *arena,
                              xcvm_image *image, xcvm_error *error);
/* Writes the file: deterministic, so that equal images give equal bytes. Constants are brought into the form that
 * decode demands; their elements go to the sink piece by piece. `allocator` may be NULL. */
xcvm_status xcvm_image_encode(const xcvm_image *image, const xcvm_allocator *allocator, xcvm_sink sink,
                              xcvm_error *error);

/* Lays out one instruction: args are copied into `arena` with operands cut off as described above. NULL if there is no
 * memory. */
void *xcvm_args_detach(xcvm_arena *arena, const xcvm_schema *schema, const void *args);

/* Text assembly (assembler.c, disassembler.c); see docs/assembly.md for the language. What assemble makes is allocated
 * in `arena`, constants included. */
xcvm_status xcvm_image_disassemble(const xcvm_image *image, const xcvm_disassemble_options *options, xcvm_sink sink,
                                   xcvm_error *error);
xcvm_status xcvm_image_assemble(const char *text, size_t length, const char *base_dir, const xcvm_allocator *allocator,
                                xcvm_arena *arena, xcvm_image *image, xcvm_error *error);
/* Attributes of one instruction as they stand in the text, e.g. "strides=[2 2] group=1"; cut to `size`. */
const char *xcvm_attributes_describe(const xcvm_schema *schema, const void *args, char *text, size_t size);
/* "f32[Nx3x224x224]", "seq(f32)", "?": as in the text. */
const char *xcvm_type_describe(const xcvm_type *type, char *text, size_t size);

#endif
