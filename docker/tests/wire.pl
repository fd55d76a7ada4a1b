#!/usr/bin/env perl
# Looks into what tcpdump has captured. Run by intruder.sh.
#   wire.pl sent FILE ADDRESS PORT   prints the bytes that ADDRESS has sent to PORT, in their order
#   wire.pl common FILE OTHER        says how many of FILE's pieces of 64 bytes are in OTHER too
# Pieces are taken from full packets, and only where they look like numbers: a header or zeros prove nothing.
use strict;
use warnings;

# segments FILE: [source address, source port, destination port, sequence number, payload]...
sub segments {
    my ($file) = @_;
    open my $in, '<:raw', $file or die "$file: $!\n";
    local $/;
    my $bytes = <$in>;
    my @segments;
    my $at = 24;
    while ($at + 16 <= length $bytes) {
        my $captured = unpack 'V', substr $bytes, $at + 8, 4;
        my $ip = substr $bytes, $at + 16 + 14, $captured - 14;
        $at += 16 + $captured;
        next if length $ip < 40 || ord($ip) >> 4 != 4 || ord(substr $ip, 9, 1) != 6;
        my $tcp = substr $ip, 4 * (ord($ip) & 15), unpack('n', substr $ip, 2, 2) - 4 * (ord($ip) & 15);
        my ($from, $to, $sequence) = unpack 'nnN', $tcp;
        push @segments, [join('.', unpack 'x12C4', $ip), $from, $to, $sequence, substr $tcp, 4 * (ord(substr $tcp, 12, 1) >> 4)];
    }
    return @segments;
}

my ($what, $file, @rest) = @ARGV;
if ($what eq 'sent') {
    my ($address, $port) = @rest;
    my (%seen, $connection);
    for my $segment (segments($file)) {
        my ($source, $from, $to, $sequence, $payload) = @$segment;
        next if $source ne $address || $to != $port || !length $payload || $seen{$sequence}++;
        $connection //= $from;
        print $payload if $from == $connection;
    }
} else {
    my $other = join '', map { $_->[4] } segments($rest[0]);
    my ($pieces, $found) = (0, 0);
    for my $segment (segments($file)) {
        my $payload = $segment->[4];
        for (my $at = 500; $at + 500 < length $payload && $pieces < 500; $at += 1000) {
            my $piece = substr $payload, $at, 64;
            my %values = map { $_ => 1 } unpack 'C*', $piece;
            next if keys %values < 40;
            $pieces++;
            $found++ if index($other, $piece) >= 0;
        }
    }
    print "$found of $pieces\n";
}
