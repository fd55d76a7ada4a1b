#!/usr/bin/env perl
# Delays every TCP connection that nft redirects to PORT, in both directions. Run by slow_link.sh, because
# netem is not in every kernel.
#   delay.pl PORT MILLISECONDS MARK        MARK: of its own connections, which must not come back to it
use strict;
use warnings;
use IO::Select;
use Socket qw(:DEFAULT IPPROTO_TCP TCP_NODELAY);

# The small perl of a base image has no Time::HiRes: clock_gettime(CLOCK_MONOTONIC), by its number.
my $clock_gettime = qx(uname -m) =~ /aarch64/ ? 113 : 228;
sub now {
    my $time = pack 'q2', 0, 0;
    syscall $clock_gettime, 1, $time;
    my ($seconds, $nanoseconds) = unpack 'q2', $time;
    return $seconds + $nanoseconds / 1e9;
}

use constant { SO_MARK => 36, SO_ORIGINAL_DST => 80, SOL_IP => 0, PIECE_BYTES => 65536 };

my ($port, $milliseconds, $mark) = @ARGV;
socket my $listener, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
setsockopt $listener, SOL_SOCKET, SO_REUSEADDR, 1;
bind $listener, sockaddr_in($port, INADDR_ANY) or die "bind: $!";
listen $listener, 128 or die "listen: $!";
$| = 1;
print "ready\n";

my $readable = IO::Select->new($listener);
my %other; # by file number: the other side of a connection
my %due;   # by file number: [when, bytes; undef at the end]... to be sent to it

sub take {
    my $accepted = accept my $near, $listener or return;
    my $origin = getsockopt $near, SOL_IP, SO_ORIGINAL_DST or return;
    socket my $far, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
    setsockopt $far, SOL_SOCKET, SO_MARK, 0 + $mark or die "SO_MARK: $!";
    connect $far, substr $origin, 0, 16 or return;
    for my $pair ([$near, $far], [$far, $near]) {
        setsockopt $pair->[0], IPPROTO_TCP, TCP_NODELAY, 1;
        $other{fileno $pair->[0]} = $pair->[1];
        $readable->add($pair->[0]);
    }
}

sub write_all {
    my ($to, $bytes) = @_;
    while (length $bytes) {
        my $wrote = syswrite $to, $bytes;
        return if !defined $wrote;
        substr $bytes, 0, $wrote, '';
    }
}

$SIG{PIPE} = 'IGNORE';
while (1) {
    my $next;
    for my $queue (values %due) {
        while (@$queue && $queue->[0][0] <= now()) {
            my ($when, $to, $bytes) = @{shift @$queue};
            defined $bytes ? write_all($to, $bytes) : shutdown $to, 1;
        }
        $next = $queue->[0][0] if @$queue && (!defined $next || $queue->[0][0] < $next);
    }
    my $wait = defined $next ? $next - now() : undef;
    for my $from ($readable->can_read(defined $wait && $wait < 0 ? 0 : $wait)) {
        if ($from == $listener) {
            take();
            next;
        }
        my $to = $other{fileno $from};
        my $got = sysread $from, my $bytes, PIECE_BYTES;
        push @{$due{fileno $to}}, [now() + $milliseconds / 1000, $to, $got ? $bytes : undef];
        $readable->remove($from) if !$got;
    }
}
