# The slice side: number formats, tiles, packing, fixed point, manifest, placement.
target_sources(ductl_weights PRIVATE
  e4m3.hpp float_types.cpp float_types.hpp fixed_point.cpp fixed_point.hpp fp9.cpp fp9.hpp
  pack.cpp pack.hpp quantize.cpp quantize.hpp slice.cpp slice.hpp tile.cpp tile.hpp
  )
# The packer's inner loops are written to be vectorised, which g++ 12 does in full from -O3 on.
set_source_files_properties(fixed_point.cpp pack.cpp quantize.cpp tile.cpp PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
