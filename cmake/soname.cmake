# soname_of(VARIABLE LIBRARY): the name by which a program finds the shared library at run time.
function(soname_of variable library)
  # readelf translates its output.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C ${CMAKE_READELF} -d ${library} OUTPUT_VARIABLE dynamic ERROR_QUIET)
  if(NOT dynamic MATCHES "soname: \\[([^]]*)\\]")
    message(FATAL_ERROR "${library} is not a shared library with a name")
  endif()
  set(${variable} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()
