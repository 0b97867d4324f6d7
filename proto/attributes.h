/* The values of attributes in the text assembly. */
#ifndef XCVM_PROTO_ATTRIBUTES_H
#define XCVM_PROTO_ATTRIBUTES_H

#include "proto/arguments.h"
#include "proto/reader.h"
#include "proto/writer.h"

/* "[1 1]", "0.5", "reflect" and so on; a jump target as the number of the instruction. */
void xcvm_attribute_write(xcvm_writer *w, const xcvm_field *field, const void *args);
/* Reads a value into an argument struct, checking its range; not for targets. */
xcvm_status xcvm_attribute_read(xcvm_reader *r, const xcvm_field *field, void *args);

#endif
