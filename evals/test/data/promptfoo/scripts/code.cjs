const calls = (text) => (text.match(/\(/g) || []).length;

module.exports = (output, context) => ({
	pass: calls(output) === 1 && typeof context.vars.reply === 'string',
	score: 0.9,
	reason: 'it has one list of parameters',
});
module.exports.isFunction = (output) => /^function/.test(output);
