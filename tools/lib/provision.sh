#!/bin/bash
# provision.sh: installs what a tool that is not a shell script needs
#
#   tools/lib/provision.sh KIND   a kind of gc_provision (server.sh): indent, lint
set -euo pipefail
source "$(dirname "$0")/server.sh"
gc_provision "$1"
