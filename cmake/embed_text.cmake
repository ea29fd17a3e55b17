# longship_embed_text(TARGET FILE NAME): makes NAME.inc, which holds FILE as a raw string literal, for
# the target's sources to include. Made anew when FILE changes.
function(longship_embed_text target file name)
  set(folder "${CMAKE_BINARY_DIR}/embedded/${target}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${file}")
  file(READ "${CMAKE_SOURCE_DIR}/${file}" text)
  file(CONFIGURE OUTPUT "${folder}/${name}.inc" CONTENT "R\"text(@text@)text\"\n" @ONLY)
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()
