# The slice side: number formats, tiles, packing, fixed point, manifest, placement.
target_sources(ductl_weights PRIVATE
  apportion.cpp
  fixed_point.cpp
  float_types.cpp
  fp9.cpp
  manifest.cpp
  manifest_file.cpp
  pack.cpp
  placement.cpp
  placement_file.cpp
  quantize.cpp
  slice.cpp
  tile.cpp
  whole_file.cpp
  )
# The packer's inner loops are written to be vectorised, which g++ 12 does in full from -O3 on.
set_source_files_properties(fixed_point.cpp pack.cpp quantize.cpp tile.cpp PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
