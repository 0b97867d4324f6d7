/* Attribute values in text assembly. */
#ifndef XCVM_PROTO_ATTRIBUTES_H
#define XCVM_PROTO_ATTRIBUTES_H

#include "proto/arguments.h"
#include "proto/reader.h"
#include "proto/writer.h"

/* Writes "[1 1]", "0.5", "reflect" and so on. A jump target is written as the instruction's number. */
void xcvm_attribute_write(xcvm_writer *w, const xcvm_field *field, const void *args);
/* Reads a value into an argument struct and checks its range. Not for targets. */
xcvm_status xcvm_attribute_read(xcvm_reader *r, const xcvm_field *field, void *args);

#endif
