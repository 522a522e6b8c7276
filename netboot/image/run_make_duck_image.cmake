# cmake -DPROGRAM=... -DAGENT=... -DPACKAGES=... -DIMAGE=... -P run_make_duck_image.cmake: the command line of
# make-duck-image. A script, since whether there is firmware is known only when the packages have been fetched.
cmake_minimum_required(VERSION 3.25)

set(firmware)
if(EXISTS ${PACKAGES}/firmware)
  set(firmware --firmware ${PACKAGES}/firmware)
endif()
execute_process(
  COMMAND ${PROGRAM} --kernel ${PACKAGES}/kernel --stub ${PACKAGES}/stub --loaders ${PACKAGES}/loaders ${firmware}
    --agent ${AGENT} --out ${IMAGE}
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "no image was made: make-duck-image ended with ${status}")
endif()
