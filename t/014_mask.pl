# Masking is FF1, and a permutation.  All 2^63 numbers cannot be tested, but those of a build
# with 15 bits can.

use SnowflakeTest;

my $node;
if (can_use_mutants())
{
	$node = new_server('small', mutant => 'masks 15 bits');

	foreach my $arguments ("'k'", "sha256('another key'), 'tweak'")
	{
		sql_is(
			$node, qq{
	SELECT count(DISTINCT masked), min(masked), max(masked),
		count(*) FILTER (WHERE snowflake_unmask(masked, $arguments) <> id) AS not_read_back,
		count(*) FILTER (WHERE masked = id) < 10 AS changed
	FROM (SELECT id, snowflake_mask(id, $arguments) AS masked FROM generate_series(0, 32767) AS id) AS m},
			'32768|0|32767|0|t', "masking permutes all numbers: $arguments");
	}
	$node->stop;

	$node = new_server('plain', mutant => 'has no OpenSSL');
	sql_fails($node, "SELECT snowflake_mask(1, 'key')", '0A000', 'without OpenSSL, there is a clear error');
	$node->stop;
}

# A key or tweak in a text is the same in databases of any encoding.
my $mask = "SELECT snowflake_mask(42, U&'schl\\00fcssel', U&'\\00e9')";
my %masks;
$node = new_server('encodings');
foreach my $encoding ('UTF8', 'LATIN1', 'EUC_JIS_2004')
{
	sql($node, "CREATE DATABASE $encoding TEMPLATE template0 ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C'");
	sql([ $node, lc $encoding ], 'CREATE EXTENSION snowflake');
	$masks{$encoding} = $node->safe_psql(lc $encoding, $mask);
}
is($masks{$_}, $masks{UTF8}, "masks are the same in $_ and UTF-8") foreach 'LATIN1', 'EUC_JIS_2004';
$node->stop;

# FF1 as the standard defines it, for any radix, with the AES of pgcrypto.  It gives the
# answers of NIST's samples 1 to 3 and 7 to 9, and those of snowflake_mask().
$node = new_server('standard');
sql($node, 'CREATE EXTENSION pgcrypto');
sql($node, <<'EOC');
CREATE FUNCTION bytes(number numeric, size int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT string_agg(set_byte(decode('00', 'hex'), 0, (div(number, 256::numeric ^ i) % 256)::int), '' ORDER BY i DESC)
	FROM generate_series(0, size - 1) AS i
$$;
CREATE FUNCTION num(digits int[], radix int) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	digit int;
	result numeric := 0;
BEGIN
	FOREACH digit IN ARRAY digits LOOP
		result := result * radix + digit;
	END LOOP;
	RETURN result;
END $$;
CREATE FUNCTION str(number numeric, radix int, size int) RETURNS int[] LANGUAGE sql IMMUTABLE AS $$
	SELECT array_agg((div(number, radix::numeric ^ i) % radix)::int ORDER BY i DESC) FROM generate_series(0, size - 1) AS i
$$;
CREATE FUNCTION cbc_mac(message bytea, key bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(encrypt_iv(message, key, decode(repeat('00', 16), 'hex'), 'aes-cbc/pad:none'), length(message) - 15)
$$;
CREATE FUNCTION ff1(x int[], radix int, key bytea, tweak bytea) RETURNS int[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	n CONSTANT int := cardinality(x);
	u CONSTANT int := n / 2;
	v CONSTANT int := n - u;
	t CONSTANT int := length(tweak);
	b CONSTANT int := ceil(ceil(v * log(2, radix)) / 8);
	d CONSTANT int := 4 * ceil(b / 4.0) + 4;
	p CONSTANT bytea := '\x010201' || bytes(radix, 3) || '\x0a' || bytes(u % 256, 1) || bytes(n, 4) || bytes(t, 4);
	left_half int[] := x[1:u];
	right_half int[] := x[u + 1:];
	r bytea;
	s bytea;
	m int;
	c int[];
BEGIN
	FOR i IN 0 .. 9 LOOP
		r := cbc_mac(p || tweak || decode(repeat('00', ((-t - b - 1) % 16 + 16) % 16), 'hex') || bytes(i, 1) || bytes(num(right_half, radix), b), key);
		s := substr(r, 1, d);
		m := CASE WHEN i % 2 = 0 THEN u ELSE v END;
		c := str((num(left_half, radix) + num((SELECT array_agg(get_byte(s, byte) ORDER BY byte) FROM generate_series(0, d - 1) AS byte), 256)) % radix::numeric ^ m, radix, m);
		left_half := right_half;
		right_half := c;
	END LOOP;
	RETURN left_half || right_half;
END $$;
CREATE FUNCTION digits(text) RETURNS int[] LANGUAGE sql IMMUTABLE AS
	$$ SELECT array_agg(strpos('0123456789abcdefghijklmnopqrstuvwxyz', digit) - 1) FROM regexp_split_to_table($1, '') AS digit $$;
EOC
my $short = '2B7E151628AED2A6ABF7158809CF4F3C';
my $long = $short . 'EF4359D8D580AA4F7F036D6F04FC6A94';
foreach my $sample (
	[ $short, 10, '0123456789', '', '2433477484' ],
	[ $short, 10, '0123456789', '39383736353433323130', '6124200773' ],
	[ $short, 36, '0123456789abcdefghi', '3737373770717273373737', 'a9tv40mll9kdu509eum' ],
	[ $long, 10, '0123456789', '', '6657667009' ],
	[ $long, 10, '0123456789', '39383736353433323130', '1001623463' ],
	[ $long, 36, '0123456789abcdefghi', '3737373770717273373737', 'xs8a0azh2avyalyzuwd' ])
{
	my ($key, $radix, $plain, $tweak, $masked) = @$sample;

	sql_is(
		$node, "SELECT ff1(digits('$plain'), $radix, '\\x$key', '\\x$tweak') = digits('$masked')", 't',
		"NIST's sample with the answer $masked");
}
# tweaks whose blocks are full in every way
sql_is(
	$node, q{
SELECT count(*), count(*) FILTER (WHERE snowflake_mask(id, key, tweak) <> num(ff1(str(id, 2, 63), 2, sha256(convert_to(key, 'UTF8')), convert_to(tweak, 'UTF8')), 2)),
	count(*) FILTER (WHERE snowflake_unmask(snowflake_mask(id, key, tweak), key, tweak) <> id)
FROM (SELECT (random() * 9e18)::bigint AS id, repeat('key', 1 + size / 3) AS key, repeat('t', size) AS tweak FROM generate_series(0, 40) AS size) AS s},
	'41|0|0', 'masks are FF1');
$node->stop;

done_testing();
