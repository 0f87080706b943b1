// policy.mjs: evaluates packaging/kubernetes/chart/policy.yaml as an API server does
//
//   node policy.mjs POLICY.yaml
//
// Variables are evaluated in their order, then each validation.  Prints TAP.
import { readFileSync } from 'node:fs'
import { run } from '@bufbuild/cel'
import { strings } from '@bufbuild/cel/ext'
import yaml from 'js-yaml'

const policies = Object.fromEntries(yaml.loadAll(readFileSync(process.argv[2], 'utf8'))
  .filter((one) => one.kind === 'ValidatingAdmissionPolicy').map((one) => [one.metadata.name, one.spec]))
const bridge = 'system:serviceaccount:gpucredit:gpucredit-bridge'
let tests = 0

// Whole numbers are CEL's int.
function typed(value) {
  if (typeof value === 'number') return BigInt(value)
  if (Array.isArray(value)) return value.map(typed)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, typed(one)]))
}

// The messages of what refuses a request.
function refusals(name, { object = null, old = null, user = 'alice', options = null, operation, org = 'acme' }) {
  const input = typed({
    object,
    oldObject: old,
    namespaceObject: { metadata: org === null ? {} : { annotations: { 'gpucredit.io/org': org } } },
    request: { operation: operation ?? (old === null ? 'CREATE' : 'UPDATE'), userInfo: { username: user }, options },
    variables: {}
  })
  const evaluate = (text) => {
    const value = run(text, input, { funcs: strings })
    if (value instanceof Error || value?.constructor?.name === 'CelError') throw new Error(`${text}: ${value.message ?? value}`)
    return value
  }

  for (const { name: variable, expression } of policies[name].variables) input.variables[variable] = evaluate(expression)
  return policies[name].validations.filter(({ expression }) => evaluate(expression) !== true).map(({ message }) => message)
}

function is(what, policy, request, expected) {
  const got = refusals(policy, request)
  const good = expected === '' ? got.length === 0 : got.length === 1 && got[0].includes(expected)

  console.log(`${good ? 'ok' : 'not ok'} ${++tests} - ${what}`)
  if (!good) console.log(`# got: ${JSON.stringify(got)}\n# expected: ${JSON.stringify(expected)}`)
}

// A pod with a gate and a GPU.
function pod(spec = {}, metadata = {}, container = {}) {
  return {
    metadata,
    spec: {
      schedulingGates: [{ name: 'gpucredit.io/credit' }],
      terminationGracePeriodSeconds: 30,
      containers: [{ name: 'main', resources: { limits: { 'nvidia.com/gpu': '1' } }, ...container }],
      ...spec
    }
  }
}

const plain = { containers: [{ name: 'main' }] }
const made = (what, object, expected, more = {}) => is(what, 'gpucredit-pods', { object, ...more }, expected)
const changed = (what, old, object, expected, user = 'alice') =>
  is(what, 'gpucredit-pods', { old, object, user }, expected)
const limits = (name) => ({ resources: { limits: { [name]: '1' } } })

made('a pod with a gate', pod(), '')
made('a pod without GPUs needs no gate', { metadata: {}, spec: plain }, '')
made('one with GPUs does', pod({ schedulingGates: [] }), 'has the scheduling gate')
made('another gate is none', pod({ schedulingGates: [{ name: 'other' }] }), 'has the scheduling gate')
made('so do GPUs of an init container', pod({ schedulingGates: [], ...plain, initContainers: [{ name: 'i', ...limits('nvidia.com/gpu') }] }),
  'has the scheduling gate')
made('a namespace of no tenant is left alone', pod({ schedulingGates: [] }), '', { org: null })
made('a pod that Kueue admitted has no gate', pod({ schedulingGates: [] }, { annotations: { 'gpucredit.io/workload': 'uid' } }), '')
made('a day to end', pod({ terminationGracePeriodSeconds: 86400 }), 'terminationGracePeriodSeconds of 30')
made('a probe with a day to end', pod({}, {}, { livenessProbe: { terminationGracePeriodSeconds: 86400 } }), 'a probe of a pod')
made('a gate without GPUs', pod(plain), '')
made('a MIG instance', pod({ containers: [{ name: 'm', ...limits('nvidia.com/mig-1g.10gb') }] }), 'parts of a GPU')
made('a shared GPU', pod({ containers: [{ name: 'm', ...limits('nvidia.com/gpu.shared') }] }), 'parts of a GPU')
made('a claim', pod({ resourceClaims: [{ name: 'gpu', resourceClaimName: 'mine' }] }), 'resourceClaims')
made('NVIDIA_VISIBLE_DEVICES', { metadata: {}, spec: { containers: [{ name: 'm', env: [{ name: 'NVIDIA_VISIBLE_DEVICES', value: 'all' }] }] } },
  'NVIDIA_VISIBLE_DEVICES')
made('another variable', { metadata: {}, spec: { containers: [{ name: 'm', env: [{ name: 'HOME', value: '/' }] }] } }, '')
made('a privileged container', { metadata: {}, spec: { containers: [{ name: 'm', securityContext: { privileged: true } }] } }, 'privileged')
made('one that is not', { metadata: {}, spec: { containers: [{ name: 'm', securityContext: { privileged: false } }] } }, '')
made('a hostPath', { metadata: {}, spec: { ...plain, volumes: [{ name: 'd', hostPath: { path: '/dev' } }] } }, 'hostPath')
made('another volume', { metadata: {}, spec: { ...plain, volumes: [{ name: 'd', emptyDir: {} }] } }, '')
made('GPUs by a mount', { metadata: {}, spec: { containers: [{ name: 'm', volumeMounts: [{ name: 'd', mountPath: '/var/run/nvidia-container-devices/all' }] }] } },
  'nvidia-container-devices')
made('a forged job', pod({}, { annotations: { 'gpucredit.io/job': '1' } }), "is gpucredit's")

const open = pod({ schedulingGates: [] }, { annotations: { 'gpucredit.io/job': '7' }, finalizers: ['gpucredit.io/settle'] })

changed('the bridge takes the gate off', pod(), open, '', bridge)
changed('a tenant does not', pod(), pod({ schedulingGates: [] }), 'is removed when credit is held')
changed('a label may change', pod(), pod({}, { labels: { a: 'b' } }), '')
changed('so may one of a pod that runs', open, { ...open, metadata: { ...open.metadata, labels: { a: 'b' } } }, '')
changed('the finalizer may not go', open, { ...open, metadata: { annotations: open.metadata.annotations } }, 'is removed when the pod is billed')
changed('but by the bridge', open, { ...open, metadata: { annotations: open.metadata.annotations } }, '', bridge)
changed('nor does the job change', open, { ...open, metadata: { ...open.metadata, annotations: { 'gpucredit.io/job': '8' } } }, "is gpucredit's")
changed('an ephemeral container with all devices', open,
  { ...open, spec: { ...open.spec, ephemeralContainers: [{ name: 'd', securityContext: { privileged: true } }] } }, 'privileged')
changed('one that asks for GPUs by a mount', open,
  { ...open, spec: { ...open.spec, ephemeralContainers: [{ name: 'd', volumeMounts: [{ name: 'v', mountPath: '/run/nvidia-container-devices/0' }] }] } },
  'nvidia-container-devices')

// made before the policies were there
const old = pod({
  schedulingGates: [], terminationGracePeriodSeconds: 600, volumes: [{ name: 'd', hostPath: { path: '/dev' } }],
  resourceClaims: [{ name: 'gpu', resourceClaimName: 'mine' }],
  ephemeralContainers: [{ name: 'd', securityContext: { privileged: true }, env: [{ name: 'NVIDIA_VISIBLE_DEVICES', value: 'all' }] }]
}, { annotations: { 'gpucredit.io/job': '7' }, finalizers: ['gpucredit.io/settle'] }, {
  securityContext: { privileged: true }, env: [{ name: 'NVIDIA_VISIBLE_DEVICES', value: 'all' }],
  livenessProbe: { terminationGracePeriodSeconds: 600 }, resources: { limits: { 'nvidia.com/gpu': '1', 'nvidia.com/mig-1g.10gb': '1' } }
})

changed('an older pod is settled', old, { ...old, metadata: { annotations: old.metadata.annotations } }, '', bridge)
changed('and may change as others do', old, { ...old, metadata: { ...old.metadata, labels: { a: 'b' } } }, '')
changed('but its finalizer is not its owner\'s', old, { ...old, metadata: { annotations: old.metadata.annotations } }, 'is removed when the pod is billed')

const deletion = (what, options, expected) =>
  is(what, 'gpucredit-deletions', { old: open, operation: 'DELETE', options }, expected)

deletion('a deletion', {}, '')
deletion('one without options', null, '')
deletion('one by force', { gracePeriodSeconds: 0 }, '')
deletion('one with a day to end', { gracePeriodSeconds: 86400 }, 'of 30 at most')
is('an eviction', 'gpucredit-evictions', { object: { metadata: {} } }, '')
is('one with a day to end', 'gpucredit-evictions', { object: { deleteOptions: { gracePeriodSeconds: 86400 } } }, 'of 30 at most')
console.log(`1..${tests}`)
