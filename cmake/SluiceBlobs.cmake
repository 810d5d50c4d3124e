# The GPU kernels: sluice_blobs(library) embeds them, for each of SLUICE_BLOB_TARGETS, into it: every specialisation of
# kernels.list as SPIR-V; one of each as Metal text; the published entries for all targets.
#
# The compiler is pinned (tools/build_blobs.py) and taken from PyPI unless SLUICE_SLANGC names one. SLUICE_BLOBS_DIR, a folder
# TARGET/FILE as build/.../blobs is one, replaces it: nothing is downloaded then.
function(sluice_blobs library)
  set(tool ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/build_blobs.py)
  set(kernels ${CMAKE_SOURCE_DIR}/kernels)
  set(sources --kernels ${kernels} --types ${CMAKE_SOURCE_DIR}/include/sluice/types.inc)
  set(generated ${CMAKE_BINARY_DIR}/generated/kernels)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernels}/kernels.list ${CMAKE_SOURCE_DIR}/tools/build_blobs.py
               ${CMAKE_SOURCE_DIR}/tools/build_kernels.py)

  if(SLUICE_GPU AND NOT SLUICE_BLOBS_DIR AND NOT SLUICE_SLANGC)
    execute_process(COMMAND ${tool} slangc --cache ${CMAKE_SOURCE_DIR}/.cache OUTPUT_VARIABLE slangc
                    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "no Slang compiler; see above")
    endif()
    set(SLUICE_SLANGC ${slangc})
  endif()

  set(folders)
  set(files)
  if(SLUICE_GPU)
    foreach(target ${SLUICE_BLOB_TARGETS})
      if(SLUICE_BLOBS_DIR)
        get_filename_component(folder ${SLUICE_BLOBS_DIR}/${target} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
        set(from --ready)
      else()
        set(folder ${CMAKE_BINARY_DIR}/blobs/${target})
        set(from --slangc ${SLUICE_SLANGC})
      endif()
      set(commands ${generated}/blobs_${target}.cmake)
      execute_process(COMMAND ${tool} plan ${sources} --target ${target} --out ${folder} --cmake ${commands} ${from}
                      RESULT_VARIABLE failed)
      if(failed)
        message(FATAL_ERROR "the GPU kernels cannot be planned; see above")
      endif()
      include(${commands})
      list(APPEND folders ${target}=${folder})
      list(APPEND files ${blob_files_${target}})
    endforeach()
  endif()

  file(GLOB slang CONFIGURE_DEPENDS ${kernels}/*.slang)
  add_custom_command(OUTPUT ${generated}/blob_table.inc ${generated}/published_table.inc ${generated}/blobs.S
                     COMMAND ${tool} table ${sources} --out ${generated} --assembler ${generated}/blobs.S ${folders}
                     DEPENDS ${kernels}/kernels.list ${CMAKE_SOURCE_DIR}/tools/build_blobs.py ${slang}
                     COMMENT "Generating the table of GPU kernels" VERBATIM)
  target_sources(${library} PRIVATE ${generated}/blob_table.inc ${generated}/published_table.inc)
  if(SLUICE_GPU)
    set_source_files_properties(${generated}/blobs.S PROPERTIES OBJECT_DEPENDS "${files}")
    target_sources(${library} PRIVATE ${generated}/blobs.S)
  endif()
endfunction()
