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
  stored_format.cpp
  tile.cpp
  whole_file.cpp
  )
# The packer's inner loops are written to be vectorised, which g++ 12 does in full from -O3 on, and a select between two
# floats only where nobody watches the floating-point exception flags. Neither changes a value.
set_source_files_properties(fixed_point.cpp pack.cpp quantize.cpp tile.cpp PROPERTIES
  COMPILE_OPTIONS "-fno-trapping-math;$<$<CONFIG:Release>:-O3>")
