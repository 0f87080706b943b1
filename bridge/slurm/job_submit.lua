--
-- job_submit.lua: a job waits, held, until gpucredit has set its credit aside.
--
-- It gives the job a name, and asks the bridge whether it is surely refused.
-- Silence of 200 ms accepts it: held, it costs nothing.
--
local posix = {
	socket = require 'posix.sys.socket',
	poll = require 'posix.poll',
	fcntl = require 'posix.fcntl',
	unistd = require 'posix.unistd',
}
local SOCKET = '/run/gpucredit/slurm.socket'
local WAIT_MS = 200

local function uuid()
	local file = io.open('/proc/sys/kernel/random/uuid')
	local text = file:read('*l')
	file:close()
	return text
end

local function given(value)
	return value ~= nil and value ~= slurm.NO_VAL and value ~= slurm.NO_VAL64
		and value ~= slurm.INFINITE
end

-- "gres:gpu:h100:2" or "gres/gpu:2": 2 and "h100"
local function gpus_of(tres)
	if tres == nil or tres == '' then return 0 end
	local kind, count = tres:match('gpu:([%a_][%w_%-]*):(%d+)')
	if count ~= nil then return tonumber(count), kind end
	count = tres:match('gpu:(%d+)') or (tres:match('gpu') and 1)
	return tonumber(count or 0), tres:match('gpu:([%a_][%w_%-]*)')
end

-- What is asked for in all, at least: "4xh100", "2x*" or "0".
local function request_of(job)
	local nodes = given(job.min_nodes) and job.min_nodes or 1
	local tasks = given(job.num_tasks) and job.num_tasks or nodes
	local all = {
		{ job.tres_per_job, 1 }, { job.tres_per_node, nodes },
		{ job.gres, nodes }, { job.tres_per_task, tasks },
		{ job.tres_per_socket, nodes *
			(given(job.sockets_per_node) and job.sockets_per_node or 1) },
	}

	for _, one in ipairs(all) do
		local count, kind = gpus_of(one[1])
		if count > 0 then
			return string.format('%dx%s', count * one[2], kind or '*')
		end
	end
	return '0'
end

-- Does it ask for a part of a GPU?  Parts have no price.
local function asks_for_part(job)
	for _, tres in pairs({ job.tres_per_job or '', job.tres_per_node or '',
		job.gres or '', job.tres_per_task or '', job.tres_per_socket or '' }) do
		if tres:match('%f[%w]shard%f[%W]') or tres:match('%f[%w]mps%f[%W]') then
			return true
		end
	end
	return false
end

-- The bridge's answer to a question; nil: none in time.
local function ask(question)
	local fd = posix.socket.socket(posix.socket.AF_UNIX,
		posix.socket.SOCK_STREAM, 0)
	local answer

	if fd == nil then return nil end
	posix.fcntl.fcntl(fd, posix.fcntl.F_SETFL, posix.fcntl.O_NONBLOCK)
	if posix.socket.connect(fd,
			{ family = posix.socket.AF_UNIX, path = SOCKET }) == 0
		and posix.socket.send(fd, question) ~= nil
		and posix.poll.rpoll(fd, WAIT_MS) == 1 then
		answer = posix.socket.recv(fd, 512)
	end
	posix.unistd.close(fd)
	return answer
end

local function submit(job)
	local account = job.account or job.default_account or 'none'
	local minutes = given(job.time_limit) and job.time_limit or 0

	if asks_for_part(job) then
		slurm.log_user('gpucredit: gres/shard and gres/mps have no price: ask for gres/gpu')
		return slurm.ERROR
	end

	local asked, answer = pcall(ask, string.format('%s %s %d\n', account,
		request_of(job), minutes))
	local why = asked and answer and answer:match('^no ([^\n]*)')

	if why then
		slurm.log_user('gpucredit: %s', why)
		return slurm.ERROR
	end
	job.admin_comment = 'gpucredit:' .. uuid()
	job.priority = 0
	return slurm.SUCCESS
end

-- Only root, as which the bridge runs, changes what credit depends on.
local function modify(job, record, refused)
	local longer = given(job.time_limit) and job.time_limit > record.time_limit
		or job.time_limit == slurm.INFINITE

	if job.priority ~= nil and job.priority ~= slurm.NO_VAL
		and job.priority ~= 0 then
		slurm.log_user('gpucredit: a job is released when its credit is set aside')
		return refused
	elseif longer then
		slurm.log_user('gpucredit: credit is set aside for the time limit it has')
		return refused
	elseif job.admin_comment ~= nil or job.account ~= nil
		or job.tres_per_node ~= nil or job.tres_per_job ~= nil
		or job.tres_per_task ~= nil or job.tres_per_socket ~= nil
		or job.shared == 0
		or (given(job.min_nodes) and job.min_nodes > record.min_nodes)
		or (given(job.max_nodes) and job.max_nodes > record.min_nodes)
		or given(job.num_tasks) then
		slurm.log_user('gpucredit: cancel the job, and submit it as it is to be')
		return refused
	end
	return slurm.SUCCESS
end

-- Slurm accepts a job as it is where a function fails: so none may.
local function sure(refused, call, ...)
	local good, answer = pcall(call, ...)

	if good then return answer end
	slurm.log_error('gpucredit: %s', tostring(answer))
	slurm.log_user('gpucredit: job_submit.lua failed; slurmctld.log says why')
	return refused
end

function slurm_job_submit(job, partitions, uid)
	return sure(slurm.ERROR, submit, job)
end

-- scontrol of 22.05 prints the code alone.
function slurm_job_modify(job, record, partitions, uid)
	local refused = slurm.ESLURM_ACCESS_DENIED or slurm.ERROR

	if uid == 0 then return slurm.SUCCESS end
	return sure(refused, modify, job, record, refused)
end

return slurm.SUCCESS
