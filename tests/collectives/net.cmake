# The transports over sockets.

ringfence_test(
  coll-hybrid
  SOURCES test_hybrid.c grid_case.c small_sockets.c
  LIBS ringfence_test_ranks ringfence::proto
  LABELS ipc
  TIMEOUT 120
  PRIVATE_OF collectives)
target_link_options(
  test-coll-hybrid PRIVATE
  -Wl,--wrap=coll_identity_get,--wrap=coll_interface_choose,--wrap=coll_address_is_loopback
  -Wl,--wrap=setsockopt)

ringfence_test(
  coll-tcp
  SOURCES test_tcp.c
  LIBS ringfence_test_ranks PkgConfig::SODIUM
  LABELS ipc
  TIMEOUT 120
  PRIVATE_OF collectives)
target_link_options(test-coll-tcp PRIVATE -Wl,--wrap=connect,--wrap=zmq_connect)

ringfence_test(
  coll-tcp-meet
  SOURCES test_tcp_meet.c
  LIBS ringfence_test_ranks PkgConfig::SODIUM
  LABELS ipc
  TIMEOUT 60
  PRIVATE_OF collectives)
target_link_options(test-coll-tcp-meet PRIVATE -Wl,--wrap=recv)

ringfence_test(coll-nh SOURCES test_nh.c LABELS unit TIMEOUT 20 PRIVATE_OF collectives)

ringfence_test(
  coll-rooted
  SOURCES test_rooted.c processors.c
  LIBS ringfence_test_ranks
  LABELS ipc
  TIMEOUT 180
  PRIVATE_OF collectives)
target_link_options(test-coll-rooted PRIVATE -Wl,--wrap=coll_identity_cpus)

ringfence_test(
  coll-given
  SOURCES test_given.c small_sockets.c
  LIBS ringfence_test_ranks
  LABELS ipc
  TIMEOUT 120)
target_link_options(test-coll-given PRIVATE -Wl,--wrap=setsockopt)

ringfence_test(
  coll-settle
  SOURCES test_settle.c
  LIBS ringfence_test_ranks
  LABELS ipc
  TIMEOUT 60)
target_link_options(test-coll-settle PRIVATE -Wl,--wrap=ioctl)

ringfence_test(
  coll-tcp-parts
  SOURCES test_tcp_parts.c
  LIBS ringfence::coll PkgConfig::SODIUM
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)

# One end of a communicator or a connection, and the test at the other.
add_library(ringfence_coll_stage STATIC conn_stage.c net_stage.c tcp_peer.c)
target_include_directories(ringfence_coll_stage PUBLIC . ${CMAKE_SOURCE_DIR}/collectives/src)
target_link_libraries(
  ringfence_coll_stage
  PUBLIC ringfence::coll ringfence_test_support PkgConfig::SODIUM
  PRIVATE ringfence_options)

ringfence_test(
  coll-tcp-into
  SOURCES test_tcp_into.c
  LIBS ringfence_coll_stage
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)

ringfence_test(
  coll-tcp-frames
  SOURCES test_tcp_frames.c
  LIBS ringfence_coll_stage
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)
target_link_options(test-coll-tcp-frames PRIVATE -Wl,--wrap=malloc,--wrap=aligned_alloc)

ringfence_test(
  coll-tcp-pieces
  SOURCES test_tcp_pieces.c
  LIBS ringfence_coll_stage
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)
target_link_options(test-coll-tcp-pieces PRIVATE
                    -Wl,--wrap=send,--wrap=sendmsg,--wrap=recv,--wrap=recvmsg)

ringfence_test(
  coll-company
  SOURCES test_company.c
  LIBS ringfence_test_ranks PkgConfig::SODIUM PkgConfig::ZMQ
  LABELS ipc
  TIMEOUT 60
  PRIVATE_OF collectives)
target_link_options(test-coll-company PRIVATE -Wl,--wrap=send,--wrap=sendmsg,--wrap=zmq_msg_send)

ringfence_test(
  coll-recall
  SOURCES test_recall.c
  LIBS ringfence_test_ranks
  LABELS ipc
  TIMEOUT 120
  PRIVATE_OF collectives)

ringfence_test(
  coll-tcp-options
  SOURCES test_tcp_options.c
  LIBS ringfence::coll
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)
target_link_options(test-coll-tcp-options PRIVATE
                    -Wl,--wrap=socket,--wrap=setsockopt,--wrap=getsockopt)

ringfence_test(
  coll-net-lend
  SOURCES test_net_lend.c
  LIBS ringfence_coll_stage
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)

ringfence_test(
  coll-net-fail
  SOURCES test_net_fail.c
  LIBS ringfence_coll_stage
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)
target_link_options(test-coll-net-fail PRIVATE -Wl,--wrap=malloc)

ringfence_test(
  coll-net-orphans
  SOURCES test_net_orphans.c
  LIBS ringfence_coll_stage
  LABELS unit
  TIMEOUT 60
  PRIVATE_OF collectives)
target_link_options(test-coll-net-orphans PRIVATE -Wl,--wrap=malloc)

ringfence_test(
  coll-netns
  SOURCES test_netns.c netns.c
  LIBS ringfence_coll_forked
  LABELS fault
  TIMEOUT 120)
set_tests_properties(coll-netns PROPERTIES SKIP_RETURN_CODE 77)

ringfence_test(
  coll-netns-hosts
  SOURCES test_netns_hosts.c netns.c grid_case.c
  LIBS ringfence_test_ranks ringfence::proto
  LABELS fault
  TIMEOUT 120
  PRIVATE_OF collectives)
set_tests_properties(coll-netns-hosts PROPERTIES SKIP_RETURN_CODE 77)

ringfence_test(
  coll-leave
  SOURCES test_leave.c
  LIBS ringfence_coll_forked
  LABELS ipc
  TIMEOUT 120)
target_link_options(test-coll-leave PRIVATE -Wl,--wrap=setsockopt)

ringfence_test(
  coll-zmq-hostile
  SOURCES test_zmq_hostile.c
  LIBS ringfence_coll_forked PkgConfig::ZMQ
  LABELS fault
  TIMEOUT 60)
target_link_options(test-coll-zmq-hostile PRIVATE -Wl,--wrap=zmq_msg_send)
