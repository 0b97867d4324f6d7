# Files and directories of `make install`, for pkg-config and find_package(xcvm).
include(CMakePackageConfigHelpers)

install(TARGETS xcvm xcvm-compiler xcvm-server EXPORT xcvm-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/xcvm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${generated}/xcvm/tape_calls.h ${generated}/xcvm/tape_calls.def DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/xcvm)
install(FILES ${generated}/xcvm.proto server/grpc/definitions/inference.proto server/http/definitions/inference.openapi.json
        DESTINATION ${CMAKE_INSTALL_DATADIR}/xcvm)
install(EXPORT xcvm-targets NAMESPACE xcvm:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/xcvm)

file(WRITE ${PROJECT_BINARY_DIR}/xcvm-config.cmake
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/xcvm-targets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/xcvm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/xcvm-config.cmake ${PROJECT_BINARY_DIR}/xcvm-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/xcvm)

# Relative to the file itself, so that the tree can be moved.
string(REGEX REPLACE "[^/]+" ".." xcvm_pc_to_prefix ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(package xcvm xcvm-compiler xcvm-server)
  configure_file(cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
