# cmake -DINPUT=calls.txt -DOUTPUT=tape_calls.h -P calls.cmake: makes the header of the tape's calls from
# tape/calls.h.in after the C preprocessor.
file(READ ${INPUT} text)
string(REGEX MATCHALL "\nROW [^\n]*" rows "${text}")
string(FIND "${text}" "\nROW " rows_begin)
string(SUBSTRING "${text}" 0 ${rows_begin} text)
# Rows without results have no struct of them.
string(REGEX MATCHALL "xcvm_[A-Za-z0-9]+_results { }" empty "${text}")
foreach(match IN LISTS empty)
  string(REGEX REPLACE " { }" "" name "${match}")
  string(REPLACE "struct ${match};\n" "" text "${text}")
  string(REPLACE "struct ${name} out; " "" text "${text}")
endforeach()
string(REPLACE " enum {" "\nenum {" text "${text}")
string(REPLACE "COMMENT \"" "\n/* " text "${text}")
string(REPLACE "\" END struct" " */\nstruct" text "${text}")
string(REPLACE "{ xcvm" "{\n    xcvm" text "${text}")
string(REGEX REPLACE "; (xcvm_|int|double|const|struct)" ";\n    \\1" text "${text}")
string(REPLACE "; }" ";\n}" text "${text}")
string(REPLACE "\nHASH define " "\n#define " text "${text}")
string(REPLACE "(REST)" "(...)" text "${text}")
string(REPLACE "ARGUMENTS" "__VA_ARGS__" text "${text}")
string(REPLACE "_call){ " "_call){" text "${text}")
string(REPLACE "xcvm_var * " "xcvm_var *" text "${text}")
string(FIND "${text}" "\nstruct " enums_end)
string(SUBSTRING "${text}" 0 ${enums_end} enums)
string(SUBSTRING "${text}" ${enums_end} -1 rest)

# The functions of C++.
set(functions "")
foreach(row IN LISTS rows)
  string(REGEX REPLACE "\nROW ([A-Za-z0-9]+) ([0-9]+).*" "\\1" name "${row}")
  string(REGEX REPLACE "\nROW ([A-Za-z0-9]+) ([0-9]+).*" "\\2" number "${row}")
  string(REGEX MATCHALL "<. [^|]*.>" fields "${row}")
  set(self xcvm_${name}_attributes)
  foreach(part parameters operands assignments defaults setters)
    set(${part} "")
  endforeach()
  foreach(field IN LISTS fields)
    if(field MATCHES "^<. into .>$")
      string(APPEND setters "    ${self} &into(xcvm_var v) { call.into = v\; return *this\; }\n")
    elseif(field MATCHES "^<. in (xcvm_[a-z_]+) ([A-Za-z0-9_]+) .>$")
      string(APPEND parameters ", ${CMAKE_MATCH_1} ${CMAKE_MATCH_2} = ${CMAKE_MATCH_1}()")
      string(APPEND operands ", ${CMAKE_MATCH_2}")
      string(APPEND assignments "call.${CMAKE_MATCH_2} = ${CMAKE_MATCH_2}\; ")
    elseif(field MATCHES "^<. out (xcvm_[a-z_]+ ?[*]?) *([A-Za-z0-9_]+) .>$")
      string(APPEND setters "    ${self} &${CMAKE_MATCH_2}(${CMAKE_MATCH_1}v) { call.out.${CMAKE_MATCH_2} = v\; return *this\; }\n")
    elseif(field MATCHES "^<. at (const char [*]|[a-z0-9_]+ )([A-Za-z0-9_]+)( = ([^|]*[^| ]))? .>$")
      string(APPEND setters "    ${self} &${CMAKE_MATCH_2}(${CMAKE_MATCH_1}v) { call.${CMAKE_MATCH_2} = v\; return *this\; }\n")
      if(NOT "${CMAKE_MATCH_4}" STREQUAL "")
        string(APPEND defaults "call.${CMAKE_MATCH_2} = ${CMAKE_MATCH_4}\; ")
      endif()
    else()
      message(FATAL_ERROR "${name}: what is ${field}?")
    endif()
  endforeach()
  string(APPEND functions "struct ${self} {
    struct xcvm_${name}_call call\;
    ${self}() : call() { ${defaults}}
${setters}}\;
inline xcvm_var xcvm_${name}(xcvm_tape *tape, ${self} with${parameters})
{
    struct xcvm_${name}_call &call = with.call\;
    call.tape = tape\;
    ${assignments}
    return xcvm_call(${number}, &call)\;
}
inline xcvm_var xcvm_${name}(xcvm_tape *tape${parameters})
{
    return xcvm_${name}(tape, ${self}()${operands})\;
}
")
endforeach()
string(REPLACE "\\;" ";" functions "${functions}")
string(REGEX REPLACE " +\n" "\n" functions "${functions}")
string(REPLACE "= xcvm_var_array v" "xcvm_var_array v" functions "${functions}")
string(FIND "${rest}" "\n#define " macros_begin)
string(SUBSTRING "${rest}" ${macros_begin} -1 macros)
string(SUBSTRING "${rest}" 0 ${macros_begin} rest)

file(WRITE ${OUTPUT} "/*
 * The calls of the tape, a macro for each instruction in C and functions in C++, made from the instruction table. Include
 * xcvm/tape.h.
 *
 * C. What a call takes is a struct: the tape, operands, attributes, where results go. Attributes that are left out have
 * the defaults that the macro begins with, and those that are named override them: warnings of initializers that do are
 * turned off for who includes this.
 *
 * C++, from C++11 on. Operands are parameters, in the order of the macro, and those that are left out are absent.
 * Attributes, results and `into` are members of a struct that comes behind the tape, each set by a function of its name:
 * xcvm_Conv(t, xcvm_Conv_attributes().strides(XCVM_INTS(2, 2)), x, w).
 */
#ifndef XCVM_TAPE_CALLS_H
#define XCVM_TAPE_CALLS_H

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic ignored \"-Woverride-init\"
#endif

#ifndef XCVM_OPS_CHOICES_H
${enums}
#endif
${rest}
#ifdef __cplusplus
extern \"C++\" {
${functions}
}
#else
${macros}
#endif
#endif
")
