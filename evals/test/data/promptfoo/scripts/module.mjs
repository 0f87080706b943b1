export default function (output) {
	return output.includes('return');
}
