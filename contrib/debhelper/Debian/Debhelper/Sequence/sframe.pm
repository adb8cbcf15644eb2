#!/usr/bin/perl
# The dh sequence `sframe`: .sframe unwind tables for programs and libraries. What strips runs before, what makes
# checksums of the files runs after.

use strict;
use warnings;
use Debian::Debhelper::Dh_Lib;

insert_after('dh_strip', 'dh_sframe');

1;
