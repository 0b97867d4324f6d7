# cmake -DOUTPUT=file.c -DNAME=symbol -DINPUT=file -P embed_bytes.cmake: the bytes of a file as a C array, and their number.
file(READ ${INPUT} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR count "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <stddef.h>\n#include <stdint.h>\nextern const uint8_t ${NAME}[];\nextern const size_t ${NAME}_size;\n"
     "const uint8_t ${NAME}[] = {${bytes}0};\nconst size_t ${NAME}_size = ${count};\n")
