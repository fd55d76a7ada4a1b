# Prints what the pages call of our own programs, a line for each flag: PAGE, the program with its
# subcommand, the flag. Called by check.sh, which compares with --help.
#   commands.pl ROOT PAGE...
# A command stands in a block ```sh, or in a sentence as `PROGRAM …`. Behind "--" comes the program
# that the launcher starts, or what coll-bench gives to the launcher.
use strict;
use warnings;

my $root = shift;
my %sub_of = map { $_ => 1 } qw(account key client clock);
my %known = map { $_ => 1 }
    qw(launcher budget-service coll-bench coll-simulate pipeline-simulate rank-bench inference-bench random-checkpoint tokenizer-encode tokenizer-learn budget-bench dev);

# The flags of one simple command, wherever our program stands in it.
sub flags {
    my ($page, $command) = @_;
    my ($program, $subcommand) = ("", "");
    for my $word (split ' ', $command) {
        my ($name) = $word =~ m{([^/"(]+)$};
        if ($word eq '--') {
            $program = $program eq 'coll-bench' ? 'launcher' : "";
            $subcommand = "";
        } elsif ($program eq "" && defined $name && $known{$name}) {
            $program = $name;
        } elsif ($program eq 'dev' && ($word eq 'run' || $word eq 'up')) {
            $program = 'launcher'; # the flags are its
        } elsif ($program eq 'launcher' && $subcommand eq "" && $word eq 'plan') {
            $subcommand = 'plan'; # the one that has flags of its own
        } elsif ($program eq 'budget-service' && ($subcommand eq "" || $sub_of{$subcommand}) && $word =~ /^[a-z-]+$/ && $word !~ /^-/) {
            $subcommand .= ($subcommand eq "" ? "" : " ") . $word;
        } elsif ($program ne "" && $word =~ /^"?(--[a-z][a-z0-9-]*)/) {
            print "$page\t$program", $subcommand eq "" ? "" : " $subcommand", "\t$1\n";
        }
    }
}

for my $page (@ARGV) {
    open my $in, '<', $page or die "$page: $!";
    my $text = do { local $/; <$in> };
    (my $shown = $page) =~ s{^\Q$root\E/}{};
    while ($text =~ /^```sh\n(.*?)^```$/msg) {
        (my $block = $1) =~ s/\\\n//g;
        $block =~ s/(^|\s)#.*$//mg;
        flags($shown, $_) for split /\n|\||&&|;|\$\(/, $block;
    }
    $text =~ s/^```.*?^```$//msg;
    flags($shown, $1) while $text =~ /`([^`\n]+)`/g;
}
