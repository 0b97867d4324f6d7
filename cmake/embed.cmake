# cmake -DOUTPUT=file.c -DNAME=symbol -DINPUTS="a.h;b.h" -P embed.cmake: concatenates the inputs, without their includes
# and exports, as a C string.
set(text "")
foreach(input ${INPUTS})
  file(READ ${input} one)
  string(REGEX REPLACE "#include \"[^\"]*\"\n" "" one "${one}")
  string(REGEX REPLACE "\nexport {[^}]*};\n" "" one "${one}")
  string(APPEND text "${one}")
endforeach()
file(WRITE ${OUTPUT}.txt "${text}")
file(READ ${OUTPUT}.txt bytes HEX)
file(REMOVE ${OUTPUT}.txt)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "const char ${NAME}[] = {${bytes}0};\n")
