# verdicts.pl: what judges answer, however hostile
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuCreditEval;
use GpuCredit;
use Test::More;

my $node = eval_node('verdicts');
my $dbh = connect_to($node, 'eval');
my $parse = $dbh->prepare(q{SELECT score || '|' || parsed || '|' || coalesce(reason, '-')
	FROM gpucredit_eval.parse_verdict(?)});

sub parsed
{
	my ($raw) = @_;

	$parse->bind_param(1, $raw, { pg_type => DBD::Pg::PG_BYTEA() });
	$parse->execute;
	return $parse->fetchrow_array;
}

my $good = '{"score": 4, "reason": "well"}';

is(parsed($good), '4|true|well', 'a verdict');
is(parsed(qq{ \n$good\t\r\n}), '4|true|well', 'with white space around it');
is(parsed(qq{```json\n$good\n```}), '4|true|well', 'in a fence');
is(parsed(qq{```\n$good\n```\n}), '4|true|well', 'in a fence without a language');
is(parsed("<think>\nIs it {\"score\": 1}? No.\n</think>\n\n```json\n$good\n```"), '4|true|well', 'after a reasoning model\'s thoughts');
is(parsed('{"reason": "", "score": 1}'), '1|true|', 'in another order, without words');
is(parsed('{"score": 5, "reason": "\u0041 \"]}[{"}'), '5|true|A "]}[{', 'with escapes and brackets in a text');

my %bad = (
	'nothing'                  => '',
	'white space'              => " \n",
	'prose'                    => 'I rate this 5 out of 5.',
	'prose before'             => "Sure! $good",
	'prose after'              => "$good Hope this helps.",
	'two objects'              => "$good$good",
	'thoughts alone'           => '<think>5</think>',
	'thoughts that do not end' => "<think>$good",
	'thoughts that quote their end' => "<think>it says </think>$good but is bad</think>{\"score\": 1, \"reason\": \"bad\"}",
	'prose before thoughts'    => "So: <think>x</think>$good",
	'an end without thoughts'  => "x</think>$good",
	'two fences'               => "```json\n$good\n```\n```json\n$good\n```",
	'a fence that is not ended' => "```json\n$good",
	'an array'                 => "[$good]",
	'a number'                 => '5',
	'a text'                   => '"5"',
	'no score'                 => '{"reason": "x"}',
	'no reason'                => '{"score": 5}',
	'duplicate score'          => '{"score": 1, "score": 5, "reason": "x"}',
	'duplicate score, escaped' => '{"score": 1, "\u0073core": 5, "reason": "x"}',
	'duplicate reason'         => '{"score": 5, "reason": "x", "reason": "y"}',
	'another field'            => '{"score": 5, "reason": "x", "pass": true}',
	'a score in a text'        => '{"score": "4", "reason": "x"}',
	'4.5'                      => '{"score": 4.5, "reason": "x"}',
	'4.0'                      => '{"score": 4.0, "reason": "x"}',
	'6'                        => '{"score": 6, "reason": "x"}',
	'0'                        => '{"score": 0, "reason": "x"}',
	'-5'                       => '{"score": -5, "reason": "x"}',
	'05'                       => '{"score": 05, "reason": "x"}',
	'NaN'                      => '{"score": NaN, "reason": "x"}',
	'Infinity'                 => '{"score": Infinity, "reason": "x"}',
	'10^400'                   => '{"score": 1' . '0' x 400 . ', "reason": "x"}',
	'5e0'                      => '{"score": 5e0, "reason": "x"}',
	'null'                     => '{"score": null, "reason": "x"}',
	'true'                     => '{"score": true, "reason": "x"}',
	'a nested score'           => '{"score": {"score": 5}, "reason": "x"}',
	'a verdict within'         => '{"verdict": {"score": 5, "reason": "x"}}',
	'a reason that is a number' => '{"score": 5, "reason": 5}',
	'a list of reasons'        => '{"score": 5, "reason": ["x"]}',
	'single quotes'            => q({'score': 5, 'reason': 'x'}),
	'a comment'                => '{"score": 5, /* x */ "reason": "x"}',
	'a trailing comma'         => '{"score": 5, "reason": "x",}',
	'an object that is not ended' => '{"score": 5, "reason": "x"',
	'a text that is not ended' => '{"score": 5, "reason": "x',
	'a control character'      => qq({"score": 5, "reason": "a\x01b"}),
	'NUL'                      => qq({"score": 5, "reason": "a\0b"}),
	'NUL, escaped'             => '{"score": 5, "reason": "a\u0000b"}',
	'half a surrogate'         => '{"score": 5, "reason": "\ud83d"}',
	'a bad escape'             => '{"score": 5, "reason": "\x"}',
	'bad UTF-8'                => qq({"score": 5, "reason": "\xff\xfe"}),
	'overlong UTF-8'           => qq({"score": 5, "reason": "\xc0\xaf"}),
	'a byte order mark'        => "\xef\xbb\xbf$good",
	'10^5 arrays'              => '[' x 100000,
	'10^5 objects'             => '{"a":' x 100000,
	'10^5 objects in a reason' => '{"score": 5, "reason": ' . '{"a":' x 100000 . '1' . '}' x 100001,
	'33 arrays'                => '{"score": 5, "reason": ' . '[' x 33 . ']' x 33 . '}',
	'over 1 MiB'               => '{"score": 5, "reason": "' . 'x' x (1024 * 1024) . '"}',
	'10^5 quotes'              => '"' x 100000,
	'10^5 backslashes'         => '{"score": 5, "reason": "' . '\\' x 100001,
	'10^5 back quotes'         => '`' x 100000);

is(parsed($bad{$_}), '1|false|-', "$_ is the score 1") foreach sort keys %bad;
is(length parsed('{"score": 3, "reason": "' . 'x' x 1000000 . '"}'), 1000007,
	'1 MB of reason is a verdict');
is($dbh->selectrow_array('SELECT 1'), 1, 'the session lives');

# random bytes and random JSON: whatever comes, a score from 1 to 5, no error
my $seed = $ENV{GC_SEED} || time;
note("GC_SEED=$seed");
srand $seed;
my @pieces = ('{', '}', '[', ']', '"score"', '"reason"', ':', ',', '5', '1', '"x"', '"', '\\', '```',
	'json', ' ', "\n", "\xff", "\0", '\u0000', 'null', 'true', '1e9', '-');
my $wrong = 0;
for (1 .. 3000)
{
	my $raw = join '', map { $pieces[ rand @pieces ] } 1 .. 1 + rand 24;
	my ($score, $is_parsed) = split /\|/, parsed($raw);

	$wrong++ unless $score =~ /^[1-5]$/ && ($is_parsed eq 'true' || $score == 1);
}
is($wrong, 0, '3,000 random answers give a score');
$dbh->disconnect;
eval_verify($node);
done_testing();
