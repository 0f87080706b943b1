#!/usr/bin/python3
"""An S3 service for tests: Swift on one device, in one process.

usage: s3_server.py FOLDER PORT [encrypt]

It listens on 127.0.0.1, has a bucket "models", and knows "acme:registry" with
the secret "secret-of-registry". With "encrypt" objects are encrypted at rest.
"""
import base64
import configparser
import logging
import os
import sys

import eventlet
eventlet.monkey_patch()
import eventlet.wsgi
from paste.deploy import loadapp
from swift.common import storage_policy, utils
from swift.common.ring import RingBuilder
from swift.common.swob import Request

FOLDER, PORT = os.path.abspath(sys.argv[1]), int(sys.argv[2])
FILTERS = ['catch_errors', 'gatekeeper', 'proxy-logging', 's3api', 'tempauth']


def configure(name, sections):
    """Write a configuration; its address for paste."""
    path = '%s/%s.conf' % (FOLDER, name)
    parser = configparser.RawConfigParser()
    parser.read_dict(sections)
    with open(path, 'w') as file:
        parser.write(file)
    return 'config:' + path


def listen(port):
    return eventlet.listen(('127.0.0.1', port))


class NoCache:
    """What tempauth wants of memcached: it forgets all."""

    def get(self, key, **options):
        return None

    def set(self, key, value, **options):
        pass

    delete = get


def serve(socket, config):
    app = loadapp(config)

    def answer(env, start_response):
        env['swift.cache'] = NoCache()
        return app(env, start_response)
    eventlet.spawn(eventlet.wsgi.server, socket, answer,
                   log=logging.getLogger('wsgi'), log_output=False)


def store(kind):
    """One of the services behind the proxy, and the ring that leads to it."""
    socket = listen(0)
    ring = RingBuilder(1, 1, 0)
    ring.add_dev({'id': 0, 'region': 1, 'zone': 1, 'weight': 1, 'device': 'device',
                  'ip': '127.0.0.1', 'port': socket.getsockname()[1]})
    ring.rebalance()
    ring.get_ring().save('%s/%s.ring.gz' % (FOLDER, kind))
    serve(socket, configure(kind, {'app:main': {
        'use': 'egg:swift#' + kind, 'devices': FOLDER, 'swift_dir': FOLDER,
        'mount_check': 'false'}}))


os.makedirs(FOLDER + '/device')
configure('swift', {'storage-policy:0': {'name': 'only', 'default': 'yes'}})
utils.SWIFT_CONF_FILE = FOLDER + '/swift.conf'
utils.HASH_PATH_SUFFIX = b'test'
storage_policy.reload_storage_policies()
for service in ('account', 'container', 'object'):
    store(service)
proxy = {'filter:' + name: {'use': 'egg:swift#' + name.replace('-', '_')}
         for name in FILTERS}
proxy['DEFAULT'] = {'swift_dir': FOLDER}
proxy['pipeline:main'] = {'pipeline': ' '.join(FILTERS) + ' proxy-server'}
proxy['app:proxy-server'] = {'use': 'egg:swift#proxy', 'account_autocreate': 'true'}
proxy['filter:s3api']['max_bucket_listing'] = '3'
proxy['filter:tempauth']['user_acme_registry'] = 'secret-of-registry .admin'
if sys.argv[3:] == ['encrypt']:
    proxy['pipeline:main']['pipeline'] = ' '.join(FILTERS) + ' keymaster encryption proxy-server'
    proxy['filter:keymaster'] = {'use': 'egg:swift#keymaster', 'encryption_root_secret':
                                 base64.b64encode(os.urandom(32)).decode()}
    proxy['filter:encryption'] = {'use': 'egg:swift#encryption'}
config = configure('proxy', proxy)
bucket = Request.blank('/v1/AUTH_acme/models', method='PUT')
print(bucket.get_response(loadapp(config, name='proxy-server')).status, flush=True)
serve(listen(PORT), config)
while True:
    eventlet.sleep(3600)
