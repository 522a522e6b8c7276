# cmake -DFOLDER=... -P fetch_packages.cmake: fetches the Debian packages of an image and unpacks them. Installs nothing.
#
# Leaves FOLDER/{kernel,stub,loaders} and, where apt's sources have non-free-firmware, FOLDER/firmware, each as
# dpkg-deb --raw-extract makes it, and in the kernel's also depmod's lists. FOLDER/fetched is written last. What apt must
# know about the archive is kept in FOLDER/apt: no root and no `apt-get update` is needed, and the machine's own lists stay
# as they are. To fetch anew, remove FOLDER.
cmake_minimum_required(VERSION 3.25)

function(stop message help)
  message(FATAL_ERROR "${message}\n  help: ${help}")
endfunction()

foreach(program apt-get apt-cache dpkg-deb depmod)
  find_program(${program}_program ${program} PATHS /usr/sbin /sbin)
  if(NOT ${program}_program)
    stop("the program ${program} is not there" "on Debian: apt-get install apt dpkg kmod")
  endif()
endforeach()

set(apt_options -q -o Dir::State=${FOLDER}/apt -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache=${FOLDER}/apt/cache
  -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=3)

# run(out COMMAND...): what it printed; stops where it fails. Warnings are shown: `apt-get update` ends well when it reached
# no archive at all, and only they say why the next command finds no package.
function(run result)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${FOLDER}
    OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " words)
    string(REPLACE "\n" "\n  " said "${out}\n${err}") # indented, so that CMake leaves the lines as they are
    stop("this command ended with ${status}:\n  ${words}\n  ${said}"
      "see that Debian's archive can be reached, that /etc/apt names it, and that the disk is not full")
  endif()
  if(err)
    message(STATUS "${err}")
  endif()
  set(${result} "${out}" PARENT_SCOPE)
endfunction()

function(fetch package folder)
  message(STATUS "fetching ${package}")
  file(REMOVE_RECURSE ${FOLDER}/archive ${FOLDER}/${folder})
  file(MAKE_DIRECTORY ${FOLDER}/archive)
  run(out ${CMAKE_COMMAND} -E chdir ${FOLDER}/archive ${apt-get_program} ${apt_options} download ${package})
  file(GLOB archive ${FOLDER}/archive/*.deb)
  run(out ${dpkg-deb_program} --raw-extract ${archive} ${FOLDER}/${folder})
  file(REMOVE_RECURSE ${FOLDER}/archive)
endfunction()

# The kernel's own package: linux-image-amd64 only depends on the newest one.
function(find_kernel result)
  run(out ${apt-cache_program} ${apt_options} depends --important linux-image-amd64)
  if(NOT out MATCHES "Depends: (linux-image-[0-9][^ \n]*-amd64)")
    stop("linux-image-amd64 depends on no kernel:\n${out}" "the image is made from Debian's kernel: give apt Debian's archive")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${FOLDER}/apt/lists/partial ${FOLDER}/apt/cache/archives/partial)
run(out ${apt-get_program} ${apt_options} update)
find_kernel(kernel)
fetch(${kernel} kernel)
file(GLOB release RELATIVE ${FOLDER}/kernel/lib/modules ${FOLDER}/kernel/lib/modules/*)
run(out ${depmod_program} -b ${FOLDER}/kernel ${release})
fetch(systemd-boot-efi stub)
fetch(ipxe loaders)
run(out ${apt-cache_program} ${apt_options} pkgnames firmware-realtek)
if(out)
  fetch(firmware-realtek firmware)
else()
  message(STATUS "no firmware-realtek: apt's sources lack non-free-firmware; Realtek chips run with the firmware they have")
endif()
file(REMOVE_RECURSE ${FOLDER}/apt)
file(WRITE ${FOLDER}/fetched "${kernel}\n")
