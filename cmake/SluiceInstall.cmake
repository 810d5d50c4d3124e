# Installation, and the package that find_package(sluice) finds.
#
# The library is shared: whoever links it needs none of its libraries' headers or archives. Only the project's own names
# leave it (cmake/sluice.map).
include(CMakePackageConfigHelpers)

get_property(folders GLOBAL PROPERTY SLUICE_FOLDERS)
list(TRANSFORM folders REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(sluice SHARED ${objects})
add_library(sluice::sluice ALIAS sluice)
target_compile_features(sluice INTERFACE cxx_std_20)
target_include_directories(sluice INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Files, not targets: a target's name would go into the package, and its users would have to find it first.
target_link_libraries(sluice PRIVATE $<TARGET_FILE:fmt::fmt> $<TARGET_FILE:PCRE2::8> ${CMAKE_THREAD_LIBS_INIT})
if(SLUICE_HAVE_CURL)
  target_link_libraries(sluice PRIVATE $<TARGET_FILE:CURL::libcurl> $<TARGET_FILE:OpenSSL::Crypto>)
endif()
target_link_options(sluice PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/sluice.map -Wl,-Bsymbolic-functions
                    -Wl,--no-undefined)
set_target_properties(sluice PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE CXX
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/sluice.map)

install(TARGETS sluice EXPORT sluice-targets)
if(TARGET sluice_cli)
  install(TARGETS sluice_cli)
endif()
install(DIRECTORY include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(FILES assets/story-q4_0.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice)
install(FILES LICENSE README.md THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(EXPORT sluice-targets NAMESPACE sluice:: DESTINATION ${package_dir} FILE sluice-config.cmake)
write_basic_package_version_file(sluice-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sluice-config-version.cmake DESTINATION ${package_dir})
