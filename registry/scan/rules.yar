/*
 * rules.yar: what no file of a model has.  Give your own with --rules.  Large
 * files are looked at in windows: "offset" is where in the file one begins.
 */
rule eicar_test_file
{
	strings:
		$a = "X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
	condition:
		$a
}

rule reverse_shell
{
	strings:
		$tcp = /\/dev\/(tcp|udp)\/[0-9.]{7,15}\/[0-9]{1,5}/
		$nc = /\bnc(\.traditional|at)? +-e +\/bin\/(ba)?sh\b/
		$pty = "pty.spawn(\"/bin/"
	condition:
		any of them
}

rule executable
{
	strings:
		$elf = { 7F 45 4C 46 (01 | 02) (01 | 02) 01 }
		$pe = { 4D 5A }
	condition:
		offset == 0 and ($elf at 0 or ($pe at 0 and uint32(uint32(0x3c)) == 0x00004550))
}
