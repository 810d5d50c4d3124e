# Flags that every target shares, and one function for the static library of a source folder.

add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/kernels
                           ${CMAKE_BINARY_DIR}/generated)
# Contraction is off: a sum must not depend on which compiler fuses what. SIMD code writes its fused operations itself.
# No semantic interposition: inside libsluice.so a function may be inlined and called directly.
target_compile_options(sluice_flags INTERFACE -Wall -Wextra $<$<BOOL:${SLUICE_WERROR}>:-Werror> -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers
                       -ffp-contract=off -fno-semantic-interposition -fvisibility-inlines-hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(sluice_flags INTERFACE -Wno-restrict)  # false alarms from std::string at -O3 (GCC bug 105651)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # TRY() is a statement expression on purpose.
  target_compile_options(sluice_flags INTERFACE -Wno-gnu-statement-expression)
endif()
if(SLUICE_SANITIZE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(sluice_flags INTERFACE -Wno-maybe-uninitialized)  # false alarms in instrumented code
  endif()
  target_compile_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_FUZZ)
  # The runtime of what sluice_folder() instruments; it comes with the sanitizers of a plain program.
  target_link_options(sluice_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# sluice_folder(NAME folders it may include ...): a static library of src/NAME/*.cpp.
function(sluice_folder name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  if(NOT sources)  # a folder of headers only
    set(sources ${CMAKE_BINARY_DIR}/generated/empty.cpp)
    file(CONFIGURE OUTPUT ${sources} CONTENT "")
  endif()
  add_library(sluice_${name} STATIC ${sources})
  target_link_libraries(sluice_${name} PUBLIC sluice_flags)
  if(SLUICE_FUZZ AND name MATCHES "^(base|quant|gguf|text)$")  # what the fuzz targets run; elsewhere it costs time alone
    target_compile_options(sluice_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  foreach(lower ${ARGN})
    target_link_libraries(sluice_${name} PUBLIC sluice_${lower})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SLUICE_FOLDERS sluice_${name})
endfunction()
