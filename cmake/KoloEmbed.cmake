# kolo_embed_files(SOURCE_VARIABLE HEADER FILE...)
#
# Makes a C++ source that holds text files as constants, and puts its path in SOURCE_VARIABLE. HEADER, as one includes it, declares
# them: in namespace kolo, `extern const std::string_view NAME;`, where NAME is the file's with underscores for what is no letter:
# report_css for page/report.css. Made again when one of the files changes.
function(kolo_embed_files source_variable header)
  get_filename_component(name ${header} NAME_WE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D "source=${source}" -D "header=${header}" -D "files=${ARGN}" -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    DEPENDS ${ARGN} ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    VERBATIM)
  set(${source_variable} ${source} PARENT_SCOPE)
endfunction()

# The rest is what the command above runs.
if(NOT CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  return()
endif()
set(code "#include \"${header}\"\n\nnamespace kolo {\n")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} text)
  string(APPEND code "\nconst std::string_view ${name} = R\"embedded(${text})embedded\";\n")
endforeach()
file(WRITE ${source} "${code}\n}  // namespace kolo\n")
