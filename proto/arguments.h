/* The argument structs of instructions, field by field. Used by decoder, encoder and text assembly. */
#ifndef XCVM_PROTO_ARGUMENTS_H
#define XCVM_PROTO_ARGUMENTS_H

#include "base/allocator.h"
#include "ops/op.h"

/* The member of an argument struct that a field describes. Its C type follows from the field's kind. */
static inline void *xcvm_field_at(const xcvm_field *f, void *args) { return (char *)args + f->offset; }
static inline const void *xcvm_field_of(const xcvm_field *f, const void *args)
{
    return (const char *)args + f->offset;
}
#define XCVM_FIELD(type, field, args) ((type *)xcvm_field_at((field), (args)))
#define XCVM_CFIELD(type, field, args) ((const type *)xcvm_field_of((field), (args)))

static inline bool xcvm_field_is_attribute(const xcvm_field *f) { return f->role == XCVM_ROLE_ATTRIBUTE; }

/* Initializes `args`, of schema->args_size bytes, to zero and the attributes' defaults. */
void xcvm_args_default(const xcvm_schema *schema, void *args);
/* Creates an argument struct with defaults, or returns NULL if there is no memory. */
void *xcvm_args_create(xcvm_arena *arena, const xcvm_schema *schema);
/* Returns true if an operand or result of the field may be absent: an optional one, or an entry of a list of any
 * values. */
static inline bool xcvm_field_may_be_absent(const xcvm_field *f)
{
    return f->kind == XCVM_FIELD_OPTIONAL || f->kind == XCVM_FIELD_ANYS;
}

/* Sets the number of entries of a list field, which are bound later. */
void xcvm_args_set_count(const xcvm_field *field, void *args, size_t count);

/* Fails with INVALID_PROGRAM unless `value` is allowed in an INT or INTS field. */
xcvm_status xcvm_field_check_int(xcvm_error *error, const xcvm_field *field, int64_t value);

/* Results of an op definition: the number of fixed ones, and whether there is also a list of any length. */
typedef struct xcvm_arity {
    size_t fixed;
    bool list;
} xcvm_arity;
xcvm_arity xcvm_schema_results(const xcvm_schema *schema);
/* Distributes `count` results over the fields. Returns false if the definition does not allow that number. */
bool xcvm_args_set_results(const xcvm_schema *schema, void *args, size_t count);

/* Returns "int", "list of strings" and so on, for messages. */
const char *xcvm_field_kind_name(const xcvm_field *field);

#endif
