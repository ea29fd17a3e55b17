include(GNUInstallDirs)
install(TARGETS longship RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/longship/configs)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The installed program finds LibTorch and NCCL where they were linked from.
set_target_properties(longship PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
